"""Encoding: vectors of the texts of new documents, before the turn that commits these."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows, as_matrix, batches
from slimdex.system.progress import progress
from slimdex.system.workers import IN_THIS_PROCESS, PartError, Workers

from ..encoders.base import Encoder, Lengths, LimitedEncoder
from ..store.readings import PartlyRead

ENCODING = "encoding"
"""Stage of progress."""
WINDOW_TEXTS = 1024
"""Texts encoded at a time, in one of several processes."""
STEP_CHARACTERS = 16_384
"""Characters encoded at a time, between reports of progress."""
CHARACTERS_PER_TOKEN = 4
NO_LENGTHS: Lengths = np.empty((0, 2), dtype=np.int64)
TEXT_CHARACTERS = 2 * CHARACTERS_PER_TOKEN
"""Overhead of a text in characters: two special tokens."""


class EncodingError(InputError):
    """The encoder failed; in another process, `ids` are those of the first and last document."""

    def __init__(self, why: str, ids: tuple[str, str] | None = None) -> None:
        super().__init__(f"encoding the documents {ids[0]!r} to {ids[1]!r}: {why}" if ids else why)
        self.ids = ids


def encode_texts(
    encoder: Encoder, texts: Sequence[str], ids: Sequence[str], dim: int, workers: Workers
) -> tuple[Matrix, Lengths]:
    """Encode texts, in this process or in others; `ids` are those of their documents.

    Returns vectors (n, dim); (n, 2) tokens and tokens read, 0 if all are read. Progress is reported
    in texts but measured in characters. Raises `EncodingError` if the encoder fails.
    """
    vectors: Matrix = np.zeros((len(texts), dim), dtype=np.float32)
    lengths: Lengths = np.zeros((len(texts), 2), dtype=np.int64)
    did = _reporting_length(texts, getattr(encoder, "max_length", None))
    is_here = workers is IN_THIS_PROCESS
    windows = list[Window]()
    for part in batches(len(texts), WINDOW_TEXTS):
        ends = (ids[part.start], ids[part.stop - 1])
        windows.append(Window(part.start, texts[part], ends))
    try:
        for window, result in workers.map(Encoding(encoder, dim, did), windows):
            span = slice(window.start, window.start + len(window.texts))
            vectors[span], lengths[span] = result
            if not is_here:
                did(window.texts)
    except PartError as error:
        raise EncodingError(str(error), error.part.ids) from error
    return vectors, lengths


@dataclass(frozen=True)
class Window:
    """Texts that are encoded together, from `start` on; ids of the first and last document."""

    start: int
    texts: Sequence[str]
    ids: tuple[str, str]


@dataclass(frozen=True)
class Encoding:
    """Encodes a window's texts in steps; pickled copies in other processes report no progress."""

    encoder: Encoder
    dim: int
    did: Callable[[Sequence[str]], None] | None = None

    def __call__(self, window: Window) -> tuple[Matrix, Lengths]:
        """Vectors (n, dim) of the texts; (n, 2) tokens and tokens read, 0 if all are read."""
        return encode_all(self.encoder, window.texts, self.dim, self.did)

    def __reduce__(self) -> tuple[Any, ...]:
        return Encoding, (self.encoder, self.dim)


def _characters(texts: Sequence[str], most: int) -> int:
    """Cost of encoding texts, in characters; at most `most` of each."""
    return sum(min(len(text), most) + TEXT_CHARACTERS for text in texts)


def encode_all(
    encoder: Encoder,
    texts: Sequence[str],
    dim: int,
    did: Callable[[Sequence[str]], object] | None = None,
) -> tuple[Matrix, Lengths]:
    """Vectors (n, dim) of texts; (n, 2) tokens and tokens read, 0 if all are read.

    `did` receives the texts of each step. Raises `EncodingError` if the encoder fails.
    """
    vectors: Matrix = np.zeros((len(texts), dim), dtype=np.float32)
    lengths: Lengths = np.zeros((len(texts), 2), dtype=np.int64)
    tokens: int = getattr(encoder, "tokens_at_once", 0)  # which keep it busy
    enough = max(STEP_CHARACTERS, 4 * CHARACTERS_PER_TOKEN * tokens)
    for places in steps([len(text) for text in texts], enough):
        step = [texts[i] for i in places]
        try:
            vectors[places], read = _encode_with_lengths(encoder, step, dim)
        except InputError as error:
            raise EncodingError(str(error)) from error
        if len(read):
            lengths[places] = np.where(read[:, :1] > read[:, 1:], read, 0)
        if did is not None:
            did(step)
    return vectors, lengths


def reporting(stage: str, total: int) -> Callable[[Sequence[str]], None]:
    """Return a function that receives texts and reports how many it has received of all."""
    done = 0

    def did(texts: Sequence[str]) -> None:
        nonlocal done
        done += len(texts)
        progress(stage, done, total)

    return did


def _reporting_length(
    texts: Sequence[str], max_tokens: int | None
) -> Callable[[Sequence[str]], None]:
    """Return a function that receives encoded texts and reports the progress by their length.

    Numbers of texts would mislead, since the longest are encoded first. An encoder that reads at
    most `max_tokens` takes no longer for longer texts.
    """
    most = sys.maxsize if max_tokens is None else CHARACTERS_PER_TOKEN * max_tokens
    count = len(texts)
    total = _characters(texts, most)
    done = 0

    def did(some: Sequence[str]) -> None:
        nonlocal done
        done += _characters(some, most)
        progress(ENCODING, count * done // total, count)

    return did


def partly_read(rows: Rows, lengths: Lengths) -> PartlyRead:
    """Tokens, and tokens read, of each row that the encoder read only in part."""
    is_cut = lengths[:, 0] > lengths[:, 1]
    read = zip(rows[is_cut].tolist(), lengths[is_cut].tolist(), strict=True)
    return {row: (total, part) for row, (total, part) in read}


def _encode_with_lengths(
    encoder: Encoder, texts: Sequence[str], dim: int
) -> tuple[Matrix, Lengths]:
    """Vectors (n, dim); and (n, 2) the tokens of each text and those read, (0, 2) if unknown.

    Raises `InputError` if the encoder does not return one finite vector per text.
    """
    if isinstance(encoder, LimitedEncoder):
        X, lengths = encoder.encode_measured(texts)
    else:
        X = encoder.encode(texts)
        lengths = NO_LENGTHS
    vectors = as_matrix(X, dim=dim, name="encoder")
    if len(vectors) != len(texts):
        raise InputError(
            f"encoder: {len(vectors)} vectors; expected one for each of {len(texts)} texts"
        )
    return vectors, lengths


def steps(lengths: Sequence[int], enough: int = STEP_CHARACTERS) -> Iterator[list[int]]:
    """Split a window's positions into parts of similar length, longest first, to reduce padding.

    >>> list(steps([5, 20_000, 9_000, 8_000]))
    [[1], [2, 3], [0]]
    """
    step = list[int]()
    characters = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        step.append(i)
        characters += lengths[i] + 1
        if characters >= enough:
            yield step
            step = []
            characters = 0
    if step:
        yield step
