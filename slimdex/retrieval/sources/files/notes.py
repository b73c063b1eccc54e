"""Notes on files that were left out, or whose text may lack something."""

from __future__ import annotations

from collections import Counter, defaultdict

HIDDEN = "hidden"
IGNORED = "ignored by .gitignore"
EXCLUDED = "excluded"
"""Reasons for leaving out files by their names, which are only counted."""

BINARY = "left out, binary"
EMPTY = "left out, empty"
GENERATED = "left out, generated (generated=True reads them)"
INDEX = "left out, slimdex indexes"
OUTSIDE = "left out, links out of the folder (follow_links=True follows them)"
TABLES = "left out, tables and data (named on their own, tables are read)"
TEXTLESS = "left out, without text"
UNSUPPORTED = "left out, unsupported"
UNREAD = "could not be read"

BROKEN = "characters that can't be decoded, read as U+FFFD"
GUESSED = "not UTF-8, encoding guessed (set it with encoding=latin-1 or another)"
SCANNED = "scanned pages without text, which `ocrmypdf --skip-text` adds"
WITHOUT_GRAMMAR = "cut by keywords, which misses some functions (the extra `code` brings grammars)"
MOST_NAMED = 10
"""Files listed by name in a line."""


class FileNotes:
    """Notes on the files of a source, with paths relative to it.

    `counts` has the files that are only counted: reason -> number.
    """

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self._files = defaultdict[str, list[tuple[str, str]]](list)  # note -> (path, detail)

    def add(self, note: str, path: str, detail: str = "") -> None:
        """Note a file, and perhaps what about it."""
        self._files[note].append((path, detail))

    def paths(self, note: str) -> list[str]:
        """Paths of the files with a note."""
        return [path for path, _ in self._files.get(note, ())]

    def lines(self) -> list[str]:
        """Lines for the user: a line for each note, with the names of some files."""
        counts = [f"{count:,} {reason}" for reason, count in sorted(self.counts.items())]
        lines = [f"left out: {', '.join(counts)}"] if counts else []
        for note, noted in sorted(self._files.items()):
            files = sorted(noted)
            names = [f"{path} ({what})" if what else path for path, what in files[:MOST_NAMED]]
            more = f" and {len(files) - MOST_NAMED:,} more" if len(files) > MOST_NAMED else ""
            lines.append(f"{note}: {', '.join(names)}{more}")
        return lines

    def as_json(self) -> list[dict[str, str]]:
        """All files but those that are only counted, as "path" and "note"."""
        noted = [
            {"path": path, "note": f"{note}: {what}" if what else note}
            for note, files in self._files.items()
            for path, what in files
        ]
        return sorted(noted, key=lambda each: each["path"])
