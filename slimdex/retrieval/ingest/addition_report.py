"""Report: the result of an addition, summed over its batches."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from slimdex.errors import counted, shorten

from ..sources.files.notes import UNREAD

NAMED = 3
"""Documents named in a note."""


@dataclass(frozen=True)
class AdditionReport:
    """Result of an addition, or of one batch of it.

    Attributes
    ----------
    documents : number added.
    replaced : number of these that replaced an older document.
    unchanged : skipped as identical to existing ones.
    deleted : documents that disappeared from their source.
    encoded : texts encoded; the others kept their vectors.
    cut, passages : number of added documents cut into passages, and number of these passages.
    empty : number of added documents without text.
    partly : number of documents that the encoder read only in part, or refused.
    named : ids of the first few of these documents.
    refitted : True if the reducer and the codes were refitted afterwards.
    notes : for the user.
    file_notes : "path" and "note" of each file that was left out or could not be read.
    """

    documents: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    encoded: int = 0
    cut: int = 0
    passages: int = 0
    empty: int = 0
    partly: int = 0
    named: tuple[str, ...] = ()
    refitted: bool = False
    notes: list[str] = field(default_factory=list)
    file_notes: list[dict[str, str]] = field(default_factory=list)

    @property
    def unread(self) -> int:
        """Number of files that could not be read."""
        return sum(each["note"].startswith(UNREAD) for each in self.file_notes)

    def __add__(self, other: AdditionReport) -> AdditionReport:
        """Sum the counts of two batches, and join their notes."""
        counts = [each.name for each in fields(self) if each.type == "int"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in counts}
        return replace(
            self,
            **sums,
            named=(*self.named, *other.named)[:NAMED],
            notes=[*dict.fromkeys([*self.notes, *other.notes])],
        )

    def text_notes(self) -> list[str]:
        """Describe for the user how texts were cut and read."""
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
                f"only what it has read is found by meaning ({names}{more})"
            )
        return notes
