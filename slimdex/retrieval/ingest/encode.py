"""Encode: rows that wait get their vectors, some seconds of work and a commit at a time.

Rows are encoded without the writer lock, by one process at a time. A kill loses the rows in hand;
the next command that adds, or `encode`, goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from time import monotonic

import numpy as np

from slimdex.errors import InUseError, SlimdexError
from slimdex.indexes.arrays import NO_ROWS, Rows, from_row, without
from slimdex.system.progress import progress_within
from slimdex.system.workers import IN_THIS_PROCESS

from ..encoders.encoding import ENCODING, TEXT_CHARACTERS
from ..index import Index
from ..store.manifest import Manifest
from ..store.row_flags import changed_since
from ..store.snapshot import Snapshot
from ..store.state import State
from . import writer
from .addition_report import AdditionReport
from .fitting import finish_fit, is_fit_due, refit, renew_moments
from .text_vectors import NO_TEXTS, EncodedTexts, StoredTexts, encode

SECONDS = 10.0
SECONDS_IN_PROCESSES = 60.0
"""Target encoding time between two commits, in this process and in others, which receive the
encoder again each time."""
FIRST_CHARACTERS = 1 << 17
FIRST_IN_PROCESSES = 1 << 21
"""Characters of the first rows, before the encoder's speed is known."""
LEAST_CHARACTERS = 1 << 14
MOST_CHARACTERS = 1 << 25
COMMITS = 4
"""Commits in a limited time."""
LEAST_ROWS = 2
"""Fewest rows between two commits: some reducers need two vectors."""
GROWTH = 8
"""Largest number of characters, relative to those before."""


@dataclass(frozen=True)
class RowsToEncode:
    """The next rows to encode, with their documents' ids.

    Attributes
    ----------
    manifest : the commit that has them.
    state : its state, whose encoder is to encode the rows from `encoded` on: see `State.target`.
    texts : empty for rows that are deleted for good.
    """

    manifest: Manifest
    state: State
    ids: Sequence[str]
    texts: Sequence[str]


@dataclass
class Pace:
    """How much to encode between two commits, which take about `seconds`.

    Attributes
    ----------
    limit : characters until the next commit.
    """

    seconds: float
    limit: int

    @classmethod
    def of(cls, index: Index, seconds: float = inf) -> Pace:
        """The pace of an index's workers; a limited time is divided into `COMMITS`."""
        is_here = index.workers is IN_THIS_PROCESS
        pace = SECONDS if is_here else SECONDS_IN_PROCESSES
        if seconds < pace:
            return cls(seconds / COMMITS, LEAST_CHARACTERS)
        return cls(pace, FIRST_CHARACTERS if is_here else FIRST_IN_PROCESSES)

    def took(self, encoded: EncodedTexts) -> None:
        """Adapt the limit to the time that encoding some texts took."""
        if encoded.characters:
            enough = int(encoded.characters * self.seconds / max(encoded.seconds, 1e-3))
            most = min(GROWTH * self.limit, MOST_CHARACTERS)
            self.limit = min(max(enough, LEAST_CHARACTERS), most)


def encode_waiting(index: Index, seconds: float = inf) -> AdditionReport:
    """Encode all rows that wait, of any addition; fit a new index to all of them at the end.

    Others who encode meanwhile are waited for. After `seconds`, the rest is left to the next call.

    Returns how many texts were encoded, and how they were read, with notes about the first fit.
    Raises `EncodingError` if the encoder fails, and `InUseError` if others get no further for
    longer than the index waits: then the other rows still wait.
    """
    goal = index.state.rows
    end = monotonic() + seconds
    encoded = index.state.encoded
    since = monotonic()
    report = AdditionReport()
    try:
        while index.read(_is_behind, goal) and monotonic() < end:
            try:
                with index.encoding():
                    report += encode_until(index, goal, end)
                    report = replace(report, notes=finish_fit(index))
            except InUseError:
                if index.state.encoded != encoded:
                    encoded = index.state.encoded
                    since = monotonic()
                elif monotonic() - since >= index.wait:
                    raise
    except SlimdexError as error:
        error.add_note(index.snapshot.unfinished)
        raise
    renew_moments(index)
    return report


def _is_behind(snapshot: Snapshot, goal: int) -> bool:
    """Whether rows before `goal` wait, or a fit of all rows."""
    state = snapshot.state
    return state.encoded < min(goal, state.rows) or is_fit_due(snapshot)


def encode_until(index: Index, goal: int, end: float = inf) -> AdditionReport:
    """Encode the rows before `goal` that wait, until a time of `monotonic`; see `encode_waiting`.

    Others may do so at the same time, and what only one of them commits counts.
    """
    report = AdditionReport()
    start = index.state.encoded
    pace = Pace.of(index, end - monotonic())
    stored = index.read(lambda it: StoredTexts.of(it.store, _last_deleted(it)))
    while index.state.encoded < min(goal, index.state.rows) and monotonic() < end:
        report += encode_next(index, pace, start, stored)
        if index.state.settings is None and index.snapshot.searchable_count >= LEAST_ROWS:
            refit(index, None, "with the last")
    return report


def encode_next(
    index: Index,
    pace: Pace,
    start: int = 0,
    stored: StoredTexts = NO_TEXTS,
    *,
    replaces: bool = False,
) -> AdditionReport:
    """Encode the next rows, and commit their vectors unless others have changed these rows.

    Parameters
    ----------
    start : the first row whose progress is reported.
    stored : texts that are not encoded again.
    replaces : whether the vectors are those that will replace the index's own.

    Returns how many texts were encoded, and how they were read.
    """
    rows = index.read(_next_rows, pace.limit, replaces)
    if rows is None:
        return AdditionReport()
    with counting(rows, start):
        encoded = encode(index, rows.state, rows.ids, rows.texts, stored)
    pace.took(encoded)
    with index.change() as change:
        now = change.state.target(replaces)
        if now is None or not change.base.manifest.keeps_rows_of(rows.manifest):
            return AdditionReport()
        then = rows.state
        if (then.encoded, then.encoder, then.vectors) != (now.encoded, now.encoder, now.vectors):
            return AdditionReport()
        commit = writer.commit_replacement if replaces else writer.commit_vectors
        commit(change, encoded.vectors)
        return encoded.report


def _last_deleted(snapshot: Snapshot) -> Rows:
    """Rows that the last change deleted, and undoing it restores."""
    state = snapshot.state
    if state.before is None:
        return NO_ROWS
    deleted, _ = changed_since(snapshot.path, state, state.before.deletions)
    return deleted[deleted < state.before.rows]


def _next_rows(snapshot: Snapshot, limit: int, replaces: bool) -> RowsToEncode | None:
    """The next rows to encode, of about `limit` characters; None if there are none.

    A long document may be left half encoded.
    """
    state = snapshot.state.target(replaces)
    if state is None or not state.waits:
        return None
    first = state.encoded
    deleted = set(without(from_row(snapshot.deleted, first), _last_deleted(snapshot)).tolist())
    ids = list[str]()
    texts = list[str]()
    characters = 0
    for row, id, text in _texts_from(snapshot, first):
        if len(texts) >= LEAST_ROWS and characters >= limit:
            break
        ids.append(id)
        texts.append("" if row in deleted else text)
        characters += len(texts[-1]) + TEXT_CHARACTERS
    return RowsToEncode(snapshot.manifest, state, ids, texts)


def _texts_from(snapshot: Snapshot, first: int) -> Iterator[tuple[int, str, str]]:
    """Row, id of the document, and text to encode of each row from `first` on."""
    document = snapshot.document_rows.documents(np.array([first]))
    for start, record in snapshot.store.records(int(document[0])):
        for row, text in enumerate(record.contents, start):
            if row >= first:
                yield row, record.document.id, text


@contextmanager
def counting(rows: RowsToEncode, start: int) -> Iterator[None]:
    """Report the progress of some rows as progress of all from row `start` on."""
    total = rows.state.rows - start

    def of_all(stage: str, done: int, characters: int) -> tuple[int, int] | None:
        """Convert progress in characters; None for other stages."""
        if stage != ENCODING:
            return None
        share = done / max(characters, 1)
        return rows.state.encoded - start + int(len(rows.texts) * share), total

    with progress_within(of_all):
        yield
