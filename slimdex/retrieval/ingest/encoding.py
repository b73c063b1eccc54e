"""Encoding: vectors of new rows' texts, before the turn that commits them or within it.

Texts of replaced documents keep their vectors, and so do those that were encoded before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, as_matrix, batches
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.execution.workers import PartError

from ..encoders.base import Encoder, Lengths, LimitedEncoder
from ..sources.given_vectors import GivenVectors
from ..store.change import AppendedFile, Change
from ..store.readings import PartlyRead
from .encoded_texts import EncodedTexts, KeptVectors

ENCODING = "encoding"
"""Stage of progress."""
WINDOW_ROWS = 1024
"""Rows encoded at a time; a kill loses those of a window or, if several processes encode, of the
current window of each."""
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
    change: Change, encoder: Encoder, rows: slice, kept: KeptVectors, known: EncodedTexts
) -> tuple[int, int]:
    """Encode the texts of new rows, for `append_vectors`; return their number, and characters.

    Texts that other rows have keep their vectors. Raises `EncodingError` if the encoder fails.
    """
    work = _Work(change, encoder, rows)
    encoding, count, characters = Encoding(encoder, change.state.dim, work.did), 0, 0
    windows = (
        work.begin(_window(change, kept, known, part, work.most))
        for part in batches(rows.stop, WINDOW_ROWS, rows.start)
    )
    try:
        for window, (vectors, lengths) in change.workers.map(encoding, windows):
            if window.texts:
                known.put(window.texts, vectors, lengths)
            count += len(window.texts)
            characters += sum(map(len, window.texts))
            work.finish(window)
    except PartError as error:
        part = error.part.rows
        ids = change.store.ids_between(part.start, part.stop)
        raise EncodingError(str(error), ids) from error
    known.look_up_all()
    return count, characters


def append_vectors(
    change: Change,
    encoder: Callable[[], Encoder],
    rows: slice,
    kept: KeptVectors,
    known: EncodedTexts,
    given: GivenVectors | None = None,
) -> tuple[AppendedFile, int]:
    """Append the vectors of new rows to the file; return the file, and the number of texts encoded.

    Vectors are given, kept from other rows, known, or else encoded.
    """
    vectors = change.vectors(rows.start)
    grown = AppendedFile(vectors, vectors.nbytes)
    count = 0
    if given is not None:
        for part in batches(len(given), WINDOW_ROWS):
            vectors.append(given.rows(part.start, part.stop))
            progress("taking vectors", part.stop, len(given))
        return grown, 0
    for part in batches(rows.stop, WINDOW_ROWS, rows.start):
        window = _window(change, kept, known, part)
        new: Matrix = np.zeros((0, change.state.dim), dtype=np.float32)
        lengths = NO_LENGTHS
        if window.texts:
            new, lengths = Encoding(encoder(), change.state.dim)(window)
        X, partly = _assembled(change, window, new, lengths)
        vectors.append(X)
        change.store.readings.put(partly)
        count += len(window.texts)
    return grown, count


@dataclass(frozen=True)
class Window:
    """Rows whose vectors are appended together, and the texts to encode."""

    rows: slice
    texts: Sequence[str]  # to encode
    todo: Rows  # places of these in the window
    empty: Rows  # places of empty texts, whose vector is zero
    kept: Rows  # places whose vectors are those of other rows
    old: Rows  # these rows
    known: Rows  # places of texts that were encoded before
    vectors: Matrix  # of the known ones
    lengths: Lengths  # of the known ones
    characters: int  # of all its texts, as counted by `_Work`


@dataclass(frozen=True)
class Encoding:
    """Encodes a window's texts in steps; pickled copies in other processes report no progress."""

    encoder: Encoder
    dim: int
    did: Callable[[Sequence[str]], None] | None = None

    def __call__(self, window: Window) -> tuple[Matrix, Lengths]:
        """Vectors (n, dim) of the texts; (n, 2) tokens and tokens read, 0 if all are read."""
        return encoded(self.encoder, window.texts, self.dim, self.did)

    def __reduce__(self) -> tuple[Any, ...]:
        return Encoding, (self.encoder, self.dim)


def _window(
    change: Change, kept: KeptVectors, known: EncodedTexts, rows: slice, most: int = sys.maxsize
) -> Window:
    contents = change.store.contents(rows.start, rows.stop)
    if len(contents) != rows.stop - rows.start:
        raise CorruptError(
            f"{change.path}: {len(contents)} passages in the rows {rows.start} to "
            f"{rows.stop - 1}; expected one in each"
        )
    empty = np.flatnonzero([not text for text in contents])
    places, old = kept.among(contents)
    rest = np.setdiff1d(np.arange(len(contents)), np.union1d(places, empty))
    here, vectors, lengths = known.among([contents[i] for i in rest])
    todo = np.delete(rest, here)
    return Window(
        rows,
        [contents[i] for i in todo],
        todo,
        empty,
        places,
        old,
        rest[here],
        vectors,
        lengths,
        _characters(contents, most),
    )


def _assembled(
    change: Change, window: Window, vectors: Matrix, lengths: Lengths
) -> tuple[Matrix, PartlyRead]:
    """All vectors of a window; and its rows that were read only in part."""
    start = window.rows.start
    X: Matrix = np.zeros((window.rows.stop - start, change.state.dim), dtype=np.float32)
    X[window.todo], X[window.known] = vectors, window.vectors
    X[window.kept] = change.vectors().take(window.old)
    before = change.store.readings.of(window.old)
    same_rows = zip(window.kept.tolist(), window.old.tolist(), strict=True)
    return X, {
        **{start + i: before[row] for i, row in same_rows if row in before},
        **{start + i: (0, 0) for i in window.empty.tolist()},
        **partly_read(start + window.todo, lengths),
        **partly_read(start + window.known, window.lengths),
    }


def _characters(texts: Sequence[str], most: int) -> int:
    """Cost of encoding texts, in characters; at most `most` of each."""
    return sum(min(len(text), most) + TEXT_CHARACTERS for text in texts)


class _Work:
    """Progress of encoding, reported in documents but measured in characters.

    The longest texts of a window come first, and sources differ in length, so the number of
    finished documents says little about the remaining time. Windows without texts to encode are
    counted with the next report.

    `most` is the number of characters of a text that count.
    """

    def __init__(self, change: Change, encoder: Encoder, rows: slice) -> None:
        tokens: int | None = getattr(encoder, "max_length", None)
        self.most = sys.maxsize if tokens is None else CHARACTERS_PER_TOKEN * tokens
        self._documents, self._last_row = rows.stop - rows.start, rows.stop
        characters = change.store.count_characters(rows.start, rows.stop, self.most)
        self._total = characters + TEXT_CHARACTERS * self._documents
        self._finished = self._done = 0

    def begin(self, window: Window) -> Window:
        """Report how far it is, if the window has texts to encode; return the window."""
        if window.texts:
            self._report()
        return window

    def did(self, texts: Sequence[str]) -> None:
        """Report that these texts are encoded."""
        self._done += _characters(texts, self.most)
        self._report()

    def finish(self, window: Window) -> None:
        """Report that a window is complete, if it had texts to encode or is the last."""
        self._finished += window.characters
        self._done = self._finished
        if window.rows.stop == self._last_row:
            progress(ENCODING, self._documents, self._documents)
        elif window.texts:
            self._report()

    def _report(self) -> None:
        done = self._documents * self._done // self._total
        progress(ENCODING, min(done, self._documents - 1), self._documents)


def encoded(
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
            vectors[places], read = _measured(encoder, step, dim)
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


def reporting_length(texts: Sequence[str]) -> Callable[[Sequence[str]], None]:
    """Return a function that receives encoded texts and reports the progress by their length.

    Numbers of texts would mislead, since the longest are encoded first.
    """
    count, total = len(texts), _characters(texts, sys.maxsize)
    done = 0

    def did(some: Sequence[str]) -> None:
        nonlocal done
        done += _characters(some, sys.maxsize)
        progress(ENCODING, count * done // total, count)

    return did


def partly_read(rows: Rows, lengths: Lengths) -> PartlyRead:
    """Tokens, and tokens read, of each row that the encoder read only in part."""
    is_cut = lengths[:, 0] > lengths[:, 1]
    read = zip(rows[is_cut].tolist(), lengths[is_cut].tolist(), strict=True)
    return {row: (total, part) for row, (total, part) in read}


def _measured(encoder: Encoder, texts: Sequence[str], dim: int) -> tuple[Matrix, Lengths]:
    """Vectors (n, dim); and (n, 2) the tokens of each text and those read, (0, 2) if unknown.

    Raises `InputError` if the encoder does not return one finite vector per text.
    """
    if isinstance(encoder, LimitedEncoder):
        X, lengths = encoder.encode_measured(texts)
    else:
        X, lengths = encoder.encode(texts), NO_LENGTHS
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
    step, characters = list[int](), 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        step.append(i)
        characters += lengths[i] + 1
        if characters >= enough:
            yield step
            step, characters = [], 0
    if step:
        yield step
