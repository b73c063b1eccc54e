"""Outline: a text built from blocks, with the start of its sections and pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ...documents import Lines, Part, line_at
from .limits import LARGEST_TEXT, UnreadableError

ANSI = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)|[()][0-9A-Z])")
"""Codes of a terminal, such as colours and titles."""
UNSHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Invisible characters: controls, lone surrogates and noncharacters."""

NO_TITLE = re.compile(
    r"[\W\d_]*|(microsoft )?(word|excel|powerpoint)( - .*)?|.* - notepad"
    r"|powerpoint[ -]?(pr\w+|演示文稿|簡報|プレゼンテーション|프레젠테이션)"
    r"|(a?pr[eé][sz]|през)\w+ (\w+ ){0,2}powerpoint"
    r"|(no title|unknown|null|none|ohne titel|unbenannt|sans titre|sin título|senza titolo"
    r"|sem título|zonder titel|без названия|无标题|無題|제목 없음)[-\s\d]*"
    r"|untitled[-\s]?(document|spreadsheet|presentation|form|diagram|design|layout)?[-\s\d]*"
    r"|(dokument|documento?|документ|文档|新規文書|pr[eä]sentation|book|mappe|slide ?|folie ?)\d*"
    r"|(print|page|layout|sheet|blank|new document)[-\s\d]*"
    r"|(file:|\w:\\).*|.*\.(docx?|pptx?|xlsx?|od[tps]|rtf|txt|pdf|indd|qxd|pmd|psd|ai|e?ps|dvi|tex"
    r"|html?|xml|png|jpe?g|tiff?)",
    re.I,
)
"""Titles that programs generate."""


@dataclass(frozen=True)
class Extract:
    """Content of a file.

    Attributes
    ----------
    title : "" if the file has none.
    parts : in order, the first at 0; empty if the text is undivided.
    facts : columns that it fills: author, date, tags, description, language, pages,
        front_matter.
    scanned : number of pages that are pictures without text.
    is_guessed : whether an encoding was guessed.
    """

    title: str
    text: str
    parts: Sequence[Part] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    scanned: int = 0
    is_guessed: bool = False


DEEPEST = 16
"""Largest number of headings above a part."""


class _Heading(NamedTuple):
    level: int
    text: str
    anchor: str


class Outline:
    r"""Blocks of text below headings of several levels.

    The last of a part's headings is its own.

    >>> outline = Outline()
    >>> outline.heading(1, "Birds")
    >>> outline.add("They fly.")
    >>> outline.heading(2, "Hens", "hens")
    >>> outline.add("They don't.")
    >>> outline.text
    "Birds\n\nThey fly.\n\nHens\n\nThey don't."
    >>> [(part.start, part.headings, part.anchor) for part in outline.parts]
    [(0, ('Birds',), ''), (18, ('Birds', 'Hens'), 'hens')]
    """

    def __init__(self, largest: int = LARGEST_TEXT) -> None:
        self._pieces = list[str]()
        self._length = 0
        self._largest = largest
        self._parts = list[Part]()
        self._stack = list[_Heading]()
        self._page: int | None = None
        self._anchor: str | None = None  # of the next part; None for that of its heading
        self._begins = True  # whether the next block begins a part
        self._top = ""  # the first heading of level 1
        self._lines = list[list[tuple[int, int]]]()
        """Lines of each part."""
        self._line = 1
        """Line in which the text ends, if that follows from the lines of the parts."""

    @property
    def text(self) -> str:
        """Text of all blocks so far."""
        return "".join(self._pieces)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts by position; empty if none has a heading, anchor, page or lines of its own."""
        parts = []
        for part, lines in zip(self._parts, self._lines, strict=True):
            parts.append(replace(part, lines=tuple(lines)) if lines else part)
        says_more = any(part.headings or part.page or part.anchor or part.lines for part in parts)
        return tuple(parts) if says_more or len(parts) > 1 else ()

    @property
    def first_heading(self) -> str:
        """First heading of the outermost level; "" if there is none."""
        return next((part.headings[0] for part in self._parts if part.headings), "")

    def title(self, stated: str) -> str:
        """Return the stated title, or the first heading if there is none or a program wrote it.

        >>> Outline().title("Tea"), Outline().title("Microsoft Word - tea.docx")
        ('Tea', '')
        """
        return self.first_heading if NO_TITLE.fullmatch(stated) else stated

    @property
    def top_heading(self) -> str:
        """Heading that names the whole text: the first one of level 1.

        Without one, the heading at the beginning, if no other has its level or a higher one. ""
        otherwise: other headings name sections.
        """
        outermost = [part.headings[0] if part.headings else "" for part in self._parts]
        return self._top or (outermost[0] if len({*outermost}) == 1 else "")

    def add(self, text: str, separator: str = "\n\n", lines: Lines = ()) -> None:
        """Append a block, unless it is empty.

        `lines` are the lines of its file that begin in the block, where known, as `Part` has them.
        Raises `UnreadableError` if the text becomes too long.
        """
        cut = visible_text(text).strip("\n").rstrip()
        if not cut.strip():
            return
        if self._length:
            self._append(separator)
            self._line += separator.count("\n")
        if self._begins:
            self._begin()

        # Without `lines`, each line of the text is a line of the file.
        if lines:
            stripped = len(text) - len(text.lstrip("\n"))
            self._note_lines(cut, _without_start(lines, text, stripped))
        else:
            self._line += cut.count("\n")
        self._append(cut)

    def _note_lines(self, text: str, lines: Lines) -> None:
        """Keep the lines of a block that do not follow from those before."""
        done = 0  # offset up to which line breaks are counted
        for offset, line in lines:
            self._line += text.count("\n", done, offset)
            done = offset
            if line != self._line:
                self._lines[-1].append((self._length + offset, line))
                self._line = line
        self._line += text.count("\n", done)

    def heading(
        self,
        level: int,
        text: str,
        anchor: str = "",
        separator: str = "\n\n",
        *,
        visible: bool = True,
        lines: Lines = (),
    ) -> None:
        """Begin a part with a heading, below the last heading of a lower level.

        If `visible`, the heading is included in the text, with its `lines` as in `add`.
        """
        words = " ".join(visible_text(text).split())
        if not words:
            return
        if level == 1:
            self._top = self._top or words

        # End the headings of its level and below.
        self.leave(level)
        del self._stack[DEEPEST - 1 :]  # a heading that is too deep replaces the deepest
        self._stack.append(_Heading(level, words, anchor))
        self._begins = True
        self._anchor = None
        if visible:
            self.add(words, separator, lines)

    def leave(self, level: int) -> None:
        """End the sections of this level and deeper ones."""
        while self._stack and self._stack[-1].level >= level:
            self._stack.pop()
            self._begins = True
            self._anchor = None

    def part(self, anchor: str = "", page: int | None = None) -> None:
        """Begin a part below the same headings, such as a cell or a page."""
        self._begins = True
        self._anchor = anchor
        self._page = page if page is not None else self._page

    def _begin(self) -> None:
        """Begin a part with the next block, below the current headings."""
        headings = tuple(heading.text for heading in self._stack)
        anchor = self._anchor
        if anchor is None:
            anchor = self._stack[-1].anchor if self._stack else ""
        self._parts.append(Part(self._length, headings, self._page, anchor))
        self._lines.append([])
        self._begins = False

    def _append(self, text: str) -> None:
        """Append to the text; raise `UnreadableError` if it becomes too long."""
        self._length += len(text)
        if self._length > self._largest:
            raise UnreadableError(f"over {self._largest:,} characters of text")
        self._pieces.append(text)


def _without_start(lines: Lines, text: str, length: int) -> Lines:
    """Lines of a text from its character `length` on, as offsets from there."""
    first = (0, line_at(text, lines, length))
    return [first, *((offset - length, line) for offset, line in lines if offset > length)]


def visible_text(text: str) -> str:
    """Remove invisible characters, and a terminal's codes."""
    text = ANSI.sub("", text) if "\x1b" in text else text
    return UNSHOWN.sub("", text) if UNSHOWN.search(text) else text


def words(text: str | None) -> str:
    """Normalise a short text to one line."""
    return " ".join(visible_text(text or "").split())
