"""Notes on files of a source: left out, unreadable, read in part, or in a guessed encoding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

NAMED = 10
"""Files listed by name in a line."""
LISTED = " (`--json` lists all)"
UNSUPPORTED = "unsupported"
"""Reason for files whose format is not read; they are named, unlike other files left out."""


@dataclass
class FileNotes:
    """Files of a source that are noted, with paths relative to it.

    Attributes
    ----------
    left_out, unread : (path, reason).
    outside : links that lead out of the folder.
    guessed : paths of files whose encoding was guessed.
    scanned : (path, number of scanned pages without text, number of pages).
    """

    left_out: list[tuple[str, str]] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    guessed: list[str] = field(default_factory=list)
    scanned: list[tuple[str, int, int]] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)

    def lines(self, hint: str = LISTED) -> list[str]:
        """Lines for the user; the hint follows names that are not all."""
        lines = self._left_out_lines(hint)
        if self.outside:
            count, remedy = _counted(len(self.outside), "link"), "(follow_links=True follows links)"
            named = _first_names(self.outside, hint)
            lines.append(f"left out: {count} out of the folder {remedy}: {named}")
        if self.guessed:
            remedy = "(set it with encoding=latin-1 or another)"
            named = _first_names(self.guessed, hint)
            lines.append(f"not UTF-8, encoding guessed {remedy}: {named}")
        if self.scanned:
            few = [f"{name} ({n:,} of {all:,})" for name, n, all in self.scanned]
            named = _first_names(few, hint)
            pages = _counted(sum(n for _, n, _ in self.scanned), "scanned page")
            files = _counted(len(self.scanned), "file")
            remedy = "without text until `ocrmypdf --skip-text` adds it"
            lines.append(f"left out: {pages} of {files}, {remedy}: {named}")
        if self.unread:
            named = _first_names([f"{name} ({reason})" for name, reason in self.unread], hint)
            lines.append(f"{_counted(len(self.unread), 'file')} could not be read: {named}")
        return lines

    def _left_out_lines(self, hint: str) -> list[str]:
        counted = Counter(reason for _, reason in self.left_out if reason != UNSUPPORTED)
        parts = [f"{count:,} {reason}" for reason, count in sorted(counted.items())]
        lines = [f"left out: {', '.join(parts)}"] if parts else []
        if named := [name for name, reason in self.left_out if reason == UNSUPPORTED]:
            files = _counted(len(named), f"{UNSUPPORTED} file")
            lines.append(f"left out: {files}: {_first_names(named, hint)}")
        return lines

    def as_json(self) -> list[dict[str, str]]:
        """All noted files: "path" and "note"."""
        noted = [
            *self.left_out,
            *((name, "a link out of the folder") for name in self.outside),
            *((name, "not UTF-8, encoding guessed") for name in self.guessed),
            *((name, f"scanned pages: {n:,} of {all:,}") for name, n, all in self.scanned),
            *self.unread,
        ]
        return [{"path": name, "note": note} for name, note in sorted(noted)]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def _first_names(names: Sequence[str], hint: str) -> str:
    more = f" and {len(names) - NAMED:,} more{hint}" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
