"""Paragraphs, list items, table rows and notes, which all office formats have."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...outline import Outline


class Slide:
    """Title and blocks of a slide, whose title may come last in its file."""

    def __init__(self) -> None:
        self._title, self._blocks = list[str](), list[tuple[str, str]]()

    def heading(self, level: int, text: str) -> None:
        """Add a line of the title."""
        self._title.append(text)

    def add(self, text: str, separator: str = "\n\n") -> None:
        """Add a block."""
        self._blocks.append((text, separator))

    def append_to(self, outline: Outline, number: int) -> None:
        """Append the slide to the text of a presentation, as a page."""
        outline.leave(0)
        outline.part("", number)
        outline.heading(1, " ".join(self._title))
        for text, separator in self._blocks:
            outline.add(text, separator)


class Blocks:
    """Builder of an outline from nested paragraphs, cells and notes.

    A paragraph in a text box, which is inside another paragraph, is a block before that one. In
    cells and notes, paragraphs and tables become part of the line.
    """

    def __init__(self, outline: Outline | Slide) -> None:
        self._outline = outline
        self._lines: list[list[str]] = [[]]  # of open elements, the innermost last
        self._inline = 0  # open cells and notes
        self._rows, self._unseen, self._said = 0, 0, 0

    def close(self) -> None:
        """Add what was outside all paragraphs."""
        self._add(["".join(line) for line in self._lines])

    def _say(self, text: str) -> None:
        """Append to the innermost line, unless it is in an element that is not read."""
        if text and not self._unseen:
            self._lines[-1].append(text)
            self._said += not text.isspace()

    def _begin(self) -> None:
        self._lines.append([])

    def _end(self) -> str:
        return "".join(self._lines.pop())

    def _end_paragraph(self, level: int, bullet: str) -> None:
        text = re.sub(" +", " ", self._end()).strip()
        if self._inline:
            self._lines[-1].append(f"{text} ")
        elif level:
            self._outline.heading(level, text)
        elif text:
            self._outline.add(bullet + text, "\n" if bullet else "\n\n")

    def _begin_inline(self) -> None:
        self._begin()
        self._inline += 1

    def _end_inline(self) -> str:
        self._inline -= 1
        return self._end()

    def _end_cell(self) -> None:
        text = self._end_inline().rstrip(" ")
        self._lines[-1].append(f"{text}\t")

    def _begin_table(self) -> None:
        if not self._inline:
            self._rows = 0

    def _end_row(self) -> None:
        text = self._end().strip()
        if self._inline:  # a table within a cell
            self._lines[-1].append(f"{text} ")
        else:
            self._outline.add(text, "\n" if self._rows else "\n\n")
            self._rows += 1

    def _add(self, lines: Sequence[str]) -> None:
        """Add lines as a block, or to the line of a cell or note."""
        if self._unseen or not any(line.strip() for line in lines):
            return
        self._said += 1
        if self._inline:
            self._lines[-1].append(f" {' '.join(lines)} ")
        else:
            self._outline.add("\n".join(lines))
