"""Encoding the texts of documents, some at a time, in this process or in others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, as_matrix, batches
from slimdex.system.progress import progress
from slimdex.system.workers import IN_THIS_PROCESS, PartError, Workers

from .base import Encoder, Lengths, LimitedEncoder

ENCODING = "encoding passages"
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
    """The encoder failed."""


def encode_texts(
    encoder: Encoder, texts: Sequence[str], ids: Sequence[str], dim: int, workers: Workers
) -> tuple[Matrix, Lengths]:
    """Encode texts, in this process or in others; `ids` are those of their documents.

    Returns their vectors (n, dim), and the tokens and tokens read of each text (n, 2), both 0 if
    all are read. Progress is reported in characters. Raises `EncodingError`
    if the encoder fails.
    """
    vectors: Matrix = np.zeros((len(texts), dim), dtype=np.float32)
    lengths: Lengths = np.zeros((len(texts), 2), dtype=np.int64)
    report = _reporting_length(texts, getattr(encoder, "max_length", None))
    in_this_process = workers is IN_THIS_PROCESS
    windows = list[Window]()
    for part in batches(len(texts), WINDOW_TEXTS):
        ends = (ids[part.start], ids[part.stop - 1])
        windows.append(Window(part.start, texts[part], ends))
    try:
        for window, result in workers.map(Encoding(encoder, dim, report), windows):
            span = slice(window.start, window.start + len(window.texts))
            vectors[span], lengths[span] = result
            if not in_this_process:  # other processes don't report progress
                report(window.texts)
    except PartError as error:
        first, last = error.part.ids
        raise EncodingError(f"encoding the documents {first!r} to {last!r}: {error}") from error
    return vectors, lengths


@dataclass(frozen=True)
class Window:
    """Texts that are encoded together.

    Attributes
    ----------
    start : position of the first one among all texts.
    ids : ids of the documents of the first and last one.
    """

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
        """Return the vectors of the texts, and their lengths, as `encode_all` does."""
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
    """Encode texts in this process, some at a time.

    Returns their vectors (n, dim), and the tokens and tokens read of each text (n, 2), both 0 if
    all are read. `did` receives the texts of each step once they are encoded. Raises
    `EncodingError` if the encoder fails.
    """
    # `tokens_at_once` tokens keep the encoder busy; a step has several times as many.
    vectors: Matrix = np.zeros((len(texts), dim), dtype=np.float32)
    lengths: Lengths = np.zeros((len(texts), 2), dtype=np.int64)
    tokens: int = getattr(encoder, "tokens_at_once", 0)
    enough = max(STEP_CHARACTERS, 4 * CHARACTERS_PER_TOKEN * tokens)
    for positions in steps([len(text) for text in texts], enough):
        step = [texts[i] for i in positions]
        try:
            vectors[positions], step_lengths = _encode_with_lengths(encoder, step, dim)
        except InputError as error:
            raise EncodingError(str(error)) from error
        if len(step_lengths):  # the encoder reports them
            is_cut = step_lengths[:, :1] > step_lengths[:, 1:]
            lengths[positions] = np.where(is_cut, step_lengths, 0)
        if did is not None:
            did(step)
    return vectors, lengths


def reporting(stage: str, total: int) -> Callable[[Sequence[str]], None]:
    """Return a function that takes finished texts and reports how many of `total` are done."""
    done = 0

    def did(texts: Sequence[str]) -> None:
        nonlocal done
        done += len(texts)
        progress(stage, done, total)

    return did


def _reporting_length(
    texts: Sequence[str], max_tokens: int | None
) -> Callable[[Sequence[str]], None]:
    """Report the beginning; return a function that takes encoded texts and reports their length.

    Numbers of texts would mislead, since the longest are encoded first. An encoder that reads at
    most `max_tokens` takes no longer for longer texts.
    """
    most = sys.maxsize if max_tokens is None else CHARACTERS_PER_TOKEN * max_tokens
    total = _characters(texts, most)
    done = 0
    progress(ENCODING, done, total)

    def did(some: Sequence[str]) -> None:
        nonlocal done
        done += _characters(some, most)
        progress(ENCODING, done, total)

    return did


def _encode_with_lengths(
    encoder: Encoder, texts: Sequence[str], dim: int
) -> tuple[Matrix, Lengths]:
    """Return vectors (n, dim), and the tokens and tokens read of each text (n, 2).

    The second array has no rows if the encoder doesn't report tokens. Raises `InputError` if the
    encoder does not return one finite vector per text.
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
    """Split texts, given by their lengths, into lists of positions, the longest texts first.

    Texts of similar length are together, which reduces padding. Each list but the last has at least
    `enough` characters.

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
