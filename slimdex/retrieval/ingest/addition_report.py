"""Added: the result of an addition, summed over its batches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from slimdex.errors import counted, shorten
from slimdex.indexes.arrays import NO_ROWS

from ..sources.files.notes import UNREAD
from ..store.passages import DocumentRows

if TYPE_CHECKING:
    from ..store.next_commit import Change
    from ..store.snapshot import Snapshot

NAMED = 3
"""Documents named in a note."""


@dataclass(frozen=True)
class Texts:
    """Counts of how the texts of new documents were cut and read.

    Attributes
    ----------
    documents : number of documents.
    cut, passages : number of documents cut into passages, and number of these passages.
    empty : number of documents without text.
    partly : number of documents that the encoder read only in part.
    tokens, read : tokens of these documents' texts or passages, and how many of them were read.
    named : ids of the first few of these documents.
    """

    documents: int = 0
    cut: int = 0
    passages: int = 0
    empty: int = 0
    partly: int = 0
    tokens: int = 0
    read: int = 0
    named: tuple[str, ...] = ()

    @classmethod
    def of(cls, change: Change, rows: DocumentRows) -> Texts:
        """Count the documents that a change adds.

        `rows` are the documents with several rows, including new ones.
        """
        # The change adds the rows from `first` on.
        first = change.base.state.rows
        counts = rows.counts[np.searchsorted(rows.firsts, first) :]
        partly, tokens, read = change.readings.partly_read(rows, NO_ROWS, first)
        positions = np.searchsorted(change.new.rows(first), partly[:NAMED]).tolist()
        return cls(
            documents=len(change.new),
            cut=len(counts),
            passages=int(counts.sum()),
            empty=len(change.readings.textless(first)),
            partly=len(partly),
            tokens=tokens,
            read=read,
            named=tuple(change.new.documents[position].id for position in positions),
        )

    @classmethod
    def of_vectors(cls, snapshot: Snapshot, first: int) -> Texts:
        """Count how the encoder read the rows from `first` on that have vectors."""
        rows = snapshot.document_rows
        partly, tokens, read = snapshot.store.readings.partly_read(rows, snapshot.deleted, first)
        named = tuple(snapshot.store.ids_of(partly[:NAMED])) if len(partly) else ()
        return cls(partly=len(partly), tokens=tokens, read=read, named=named)

    def __add__(self, other: Texts) -> Texts:
        """Sum the counts of two batches."""
        return Texts(
            documents=self.documents + other.documents,
            cut=self.cut + other.cut,
            passages=self.passages + other.passages,
            empty=self.empty + other.empty,
            partly=self.partly + other.partly,
            tokens=self.tokens + other.tokens,
            read=self.read + other.read,
            named=(*self.named, *other.named)[:NAMED],
        )

    def notes(self) -> list[str]:
        """Describe the counts for the user."""
        notes = list[str]()
        of_all = f"of {counted(self.documents, 'document')}"
        if self.cut:
            notes.append(f"{self.cut:,} {of_all} cut into {self.passages:,} passages")
        if self.empty:
            notes.append(f"{self.empty:,} {of_all} have no text: no search finds them")
        if self.partly:
            names = ", ".join(shorten(id, 80) for id in self.named)
            more = ", ..." if self.partly > len(self.named) else ""
            notes.append(
                f"{counted(self.partly, 'document')} longer than the encoder reads, or refused: "
                f"{share(self.read / self.tokens)} of the text was read, and only that is found by "
                f"meaning ({names}{more})"
            )
        return notes


@dataclass(frozen=True)
class AdditionReport:
    """Result of an addition, or of one batch of it."""

    documents: int = 0  # number added
    replaced: int = 0  # number of these that replaced an older document
    notes: list[str] = field(default_factory=list)
    unchanged: int = 0  # skipped as identical to existing ones
    refitted: bool = False  # True if the reducer and the codes were refitted afterwards
    deleted: int = 0  # documents that disappeared from their source
    moved: int = 0  # number of these that were added under another id
    encoded: int = 0  # texts encoded; the others kept their vectors
    # "path" and "note" of each file that was left out or could not be read:
    file_notes: list[dict[str, str]] = field(default_factory=list)

    @property
    def unread(self) -> int:
        """Number of files that could not be read."""
        return sum(each["note"].startswith(UNREAD) for each in self.file_notes)

    def __add__(self, other: AdditionReport) -> AdditionReport:
        """Sum the counts of two batches, and join their notes."""
        return replace(
            self,
            documents=self.documents + other.documents,
            replaced=self.replaced + other.replaced,
            notes=[*dict.fromkeys([*self.notes, *other.notes])],
            unchanged=self.unchanged + other.unchanged,
            deleted=self.deleted + other.deleted,
            moved=self.moved + other.moved,
            encoded=self.encoded + other.encoded,
        )


def share(part: float) -> str:
    """Format a share as a percentage.

    >>> share(0.256), share(0.003)
    ('26%', 'less than 1%')
    """
    return f"{part:.0%}" if part >= 0.01 else "less than 1%"
