"""Encoding: vectors of staged documents, with a commit per window.

A kill loses the current window or, if several processes encode, the current window of each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, as_matrix, batches
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.execution.workers import PartError
from slimdex.indexes.search.reduced_index import NO_ROWS
from slimdex.indexes.vectors.vector_file import BLOCK_BYTES

from ..catalog.readings import PartlyRead
from ..encoders.base import Encoder, Lengths, LimitedEncoder
from ..sources.given_vectors import GivenVectors
from ..storage.commit_log import AppendedFile, CommitLog
from .kept_vectors import DIGEST, KeptVectors

WINDOW = 1024
"""Documents encoded between two commits, lost by a kill."""
STEP_CHARACTERS = 16_384
"""Characters encoded at a time, between reports of progress."""
CHARACTERS_PER_TOKEN = 4
TEXT_CHARACTERS = 2 * CHARACTERS_PER_TOKEN
"""Overhead of a text in characters: two special tokens."""


class EncodingError(InputError):
    """Texts that other processes failed to encode, identified by the documents' ids."""

    def __init__(self, ids: tuple[str, str], why: str) -> None:
        first, last = ids
        super().__init__(f"encoding the documents {first!r} to {last!r}: {why}")
        self.ids = ids


def encode_pending(
    commit_log: CommitLog, encoder: Encoder, given: GivenVectors | None = None, gone: Rows = NO_ROWS
) -> int:
    """Encode the staged documents that lack vectors, or take given vectors; return the number
    encoded.

    Texts of replaced documents, and of those in `gone`, keep their vectors.

    Raises `EncodingError` if other processes fail to encode some.
    """
    state = commit_log.state
    _check_given(commit_log, given)
    vectors = commit_log.vectors(state.encoded)
    commit_log.check_tail(vectors)
    if given is not None:
        windows = _given_windows(commit_log, given)
    else:
        windows = _encoded_windows(commit_log, encoder, gone)
    done = 0
    for window in windows:
        grown = AppendedFile(vectors, vectors.nbytes // BLOCK_BYTES)
        vectors.append(window.vectors)
        with commit_log.transaction():
            commit_log.set_blocks(grown)
            commit_log.store.readings.put(window.partly)
            commit_log.set_state(replace(commit_log.state, encoded=len(vectors)))
        done += window.encoded
    return done


def _check_given(commit_log: CommitLog, given: GivenVectors | None) -> None:
    """Raise `InputError` unless an addition continues with vectors from the same source."""
    state = commit_log.state
    if state.given != (given is not None):
        began = "vectors from elsewhere" if state.given else "the encoder's vectors"
        raise InputError(
            f"{commit_log.path}: an addition that began with {began}; expected them again"
        )
    if given is not None and (len(given), given.dim) != (state.staged - state.rows, state.dim):
        raise InputError(
            f"{given.name}: {len(given)} rows of {given.dim} dimensions; expected those that the "
            f"addition began with, {state.staged - state.rows} of {state.dim}"
        )


@dataclass(frozen=True)
class _Found:
    """A window's vectors (n, dim), rows read only in part, and the number of texts encoded."""

    vectors: Matrix
    partly: PartlyRead
    encoded: int


def _given_windows(commit_log: CommitLog, given: GivenVectors) -> Iterator[_Found]:
    state = commit_log.state
    for rows in batches(state.staged, WINDOW, state.encoded):
        vectors = given.rows(rows.start - state.rows, rows.stop - state.rows)
        progress("taking vectors", rows.stop - state.rows, state.staged - state.rows)
        yield _Found(vectors, {}, 0)


@dataclass(frozen=True)
class Window:
    """Rows that are committed together, and the texts to encode.

    Attributes
    ----------
    texts, todo : texts to encode, and their places in the window.
    empty : places of empty texts, whose vector is zero.
    kept, old : places whose vectors exist, and the rows of these vectors.
    characters : of all its texts, as counted by `_Work`.
    """

    rows: slice
    texts: Sequence[str]
    todo: Rows
    empty: Rows
    kept: Rows
    old: Rows
    characters: int


@dataclass(frozen=True)
class Encoding:
    """Encodes a window's texts in steps; pickled copies in other processes report no progress."""

    encoder: Encoder
    dim: int
    did: Callable[[Sequence[str]], None] | None = None

    def __call__(self, window: Window) -> tuple[Matrix, PartlyRead]:
        """Return vectors (n, dim) of the texts, and a map of those read only in part, by place."""
        out = np.zeros((len(window.texts), self.dim), dtype=np.float32)
        partly = dict[int, tuple[int, int]]()
        for places, vectors, read in encoded_steps(self.encoder, window.texts, self.dim):
            out[places] = vectors
            partly.update(read)
            if self.did is not None:
                self.did([window.texts[i] for i in places])
        return out, partly

    def __reduce__(self) -> tuple[Any, ...]:
        return Encoding, (self.encoder, self.dim)


def _encoded_windows(commit_log: CommitLog, encoder: Encoder, gone: Rows) -> Iterator[_Found]:
    """Yield the windows from the first that is not encoded, in order."""
    state = commit_log.state
    known = KeptVectors(np.array([], DIGEST), NO_ROWS)
    if state.rows:
        known = KeptVectors.of(commit_log, gone)
    work = _Work(commit_log, encoder)
    work.did([])  # earlier windows count as done, but not for the rate
    encoding = Encoding(encoder, state.dim, work.did)
    windows = (
        _window(commit_log, known, rows, work.most)
        for rows in batches(state.staged, WINDOW, state.encoded)
    )
    try:
        for window, (vectors, partly) in commit_log.workers.map(encoding, windows):
            work.finish(window)
            yield _assembled(commit_log, window, vectors, partly)
    except PartError as error:
        rows = error.part.rows
        raise EncodingError(
            commit_log.store.ids.between(rows.start, rows.stop), str(error)
        ) from error


def _window(commit_log: CommitLog, known: KeptVectors, rows: slice, most: int) -> Window:
    contents = commit_log.store.documents.contents(rows.start, rows.stop)
    if len(contents) != rows.stop - rows.start:
        raise CorruptError(
            f"{commit_log.path}: {len(contents)} passages in the rows {rows.start} to "
            f"{rows.stop - 1}; expected one in each"
        )
    kept, old = known.among(contents)
    is_empty = np.array([not text for text in contents], dtype=np.bool_)
    empty = np.flatnonzero(is_empty)
    todo = np.setdiff1d(np.flatnonzero(~is_empty), kept, assume_unique=True)
    texts = [contents[i] for i in todo]
    return Window(rows, texts, todo, empty, kept, old, _characters(contents, most))


def _assembled(
    commit_log: CommitLog, window: Window, vectors: Matrix, partly: PartlyRead
) -> _Found:
    """All vectors of a window: existing, encoded, or zero."""
    count, start = window.rows.stop - window.rows.start, window.rows.start
    out: Matrix = np.zeros((count, commit_log.state.dim), dtype=np.float32)
    out[window.todo] = vectors
    out[window.kept] = commit_log.vectors().take(window.old)
    before = commit_log.store.readings.of(window.old)
    same_rows = zip(window.kept.tolist(), window.old.tolist(), strict=True)
    read = {start + i: before[row] for i, row in same_rows if row in before}
    read |= {start + i: (0, 0) for i in window.empty.tolist()}
    read |= {start + int(window.todo[i]): lengths for i, lengths in partly.items()}
    return _Found(out, read, len(window.texts))


def _characters(texts: Sequence[str], most: int) -> int:
    """Cost of encoding texts, in characters; at most `most` of each."""
    return sum(min(len(text), most) + TEXT_CHARACTERS for text in texts)


class _Work:
    """Progress of encoding, reported in documents but measured in characters.

    The longest texts of a window come first, and sources differ in length, so the number of
    finished documents says little about the remaining time.

    `most` is the number of characters of a text that count.
    """

    def __init__(self, commit_log: CommitLog, encoder: Encoder) -> None:
        state = commit_log.state
        tokens: int | None = getattr(encoder, "max_length", None)
        self.most = sys.maxsize if tokens is None else CHARACTERS_PER_TOKEN * tokens
        self._documents = state.staged - state.rows
        self._last_row = state.staged
        self._finished, self._total = (
            commit_log.store.documents.characters(state.rows, stop, self.most)
            + TEXT_CHARACTERS * (stop - state.rows)
            for stop in (state.encoded, state.staged)
        )
        self._done = self._finished

    def did(self, texts: Sequence[str]) -> None:
        """Report that these texts are encoded."""
        self._done += _characters(texts, self.most)
        done = self._documents * self._done // self._total
        progress("encoding", min(done, self._documents - 1), self._documents)

    def finish(self, window: Window) -> None:
        """Report that a window is complete."""
        self._finished += window.characters
        self._done = self._finished
        done = self._documents * self._done // self._total
        is_last = window.rows.stop == self._last_row
        done = self._documents if is_last else min(done, self._documents - 1)
        progress("encoding", done, self._documents)


def encoded_steps(
    encoder: Encoder, texts: Sequence[str], dim: int
) -> Iterator[tuple[list[int], Matrix, PartlyRead]]:
    """Yield positions of some of the texts, their vectors, and those read only in part, by
    position.
    """
    for positions in steps([len(text) for text in texts], _step_characters(encoder)):
        vectors, lengths = measured(encoder, [texts[i] for i in positions], dim)
        partly = {
            positions[i]: (tokens, read)
            for i, (tokens, read) in enumerate(lengths.tolist())
            if read < tokens
        }
        yield positions, vectors, partly


def measured(encoder: Encoder, texts: Sequence[str], dim: int) -> tuple[Matrix, Lengths]:
    """Vectors (n, dim); and (n, 2) the tokens of each text and those read, (0, 2) if unknown.

    Raises `InputError` if the encoder does not return one finite vector per text.
    """
    lengths: Lengths = np.empty((0, 2), dtype=np.int64)
    if isinstance(encoder, LimitedEncoder):
        vectors, lengths = encoder.encode_measured(texts)
    else:
        vectors = encoder.encode(texts)
    return _of_count(as_matrix(vectors, dim=dim, name="encoder"), len(texts)), lengths


def _step_characters(encoder: Encoder) -> int:
    """Characters that keep an encoder busy, given the tokens that it processes at once."""
    tokens: int = getattr(encoder, "tokens_at_once", 0)
    return max(STEP_CHARACTERS, 4 * CHARACTERS_PER_TOKEN * tokens)


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


def _of_count(vectors: Matrix, texts: int) -> Matrix:
    if len(vectors) != texts:
        raise InputError(f"encoder: {len(vectors)} vectors; expected one for each of {texts} texts")
    return vectors
