"""HTML: visible text of a page, and the anchors that links can point to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..decoding import declared_label, decode_text
from ..front_matter import moment
from ..outline import Extract, Outline, words
from ..text_line import Line, count
from .html_events import Event, page_events
from .html_frame import ContentChoice, without_frame

HEADINGS = {f"h{level}": level for level in range(1, 7)}
ENTRY = 10
"""Level of a `dt` with an anchor: below all headings, deeper in nested lists."""
BLOCKS = frozenset([
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details",
    "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form",
    "header", "hr", "legend", "li", "main", "menu", "nav", "ol", "p", "pre", "section", "summary",
    "table", "tbody", "tfoot", "thead", "tr", "ul",
])  # fmt: skip
LINES = ("li", "dt", "dd", "tr", "caption", "summary")
"""Elements that begin a line, not a paragraph."""
MOST_MARKS = 32
"""Anchors remembered before a heading; the first is used."""
SPACES = re.compile(r"\s+")
BLANKS = re.compile(r"[ \xa0]+")
BREAK = re.compile(r" ?\n ?")
TAB = re.compile(r" ?\t ?")
CHARSET = re.compile(rb"""<meta[^<>]+charset\s*=\s*+["']?\s*+([\w.:-]+)""", re.I)
FACTS = {"author": "author", "keywords": "tags", "description": "description", "date": "date"}
"""Names of `meta` elements -> columns."""
UNSEEN = ("head", "title")
"""Elements whose text is metadata."""
RAISED = re.compile(r"vertical-align:\s*super\b", re.I)
NOTE_REFERENCES = frozenset(["noteref", "doc-noteref"])
ALL = ContentChoice()
Attributes = Mapping[str, str]


def read(data: bytes, encoding: str | None = None) -> Extract:
    """Read a page without its frame; a title that extends the first heading is cut to it.

    >>> page = read(b"<title>Tea - My site</title><nav>Home</nav><h1 id=t>Tea</h1><p>Boil <b>it")
    >>> page.title, page.text, page.parts[0].anchor
    ('Tea', 'Tea\\n\\nBoil it', 't')
    """
    events = page_events(page_text(data, encoding))
    outline = Outline()
    page = feed(outline, events, without_frame(events))
    heading = outline.first_heading
    title = heading if page.title.startswith(heading) and heading else page.title
    facts: dict[str, Any] = {column: text for column, text in page.facts.items() if text}
    if "date" in facts:
        facts["date"] = moment(facts["date"])
    return Extract(title, outline.text, outline.parts, facts)


def text_of(text: str) -> str:
    """Text of a message or of a part of a page, which have no frame.

    >>> text_of("<td>one</td><td>two</td>"), text_of("<aside>Aside")
    ('one\\ttwo', 'Aside')
    """
    outline = Outline()
    feed(outline, page_events(text, is_fragment=True))
    return outline.text


def feed(outline: Outline, events: Sequence[Event], shown: ContentChoice = ALL) -> _Page:
    """Append a page, a chapter or a part of a page; return it, with its title and facts."""
    page = _Page(outline, shown)
    for number, event in enumerate(events):
        if isinstance(event, str):
            page.data(event)
        elif event is None:
            page.end()
        else:
            page.start(number, event.tag, event.attributes)
    page.close()
    return page


def page_text(data: bytes, encoding: str | None = None, label: str | None = None) -> str:
    r"""Decode a page by a label of its mail, or by its own.

    >>> page_text(b"<meta charset=latin1>\x93Tea\x94")
    '<meta charset=latin1>“Tea”'
    """
    return decode_text(data, encoding, label or label_of(data))


def label_of(data: bytes) -> str | None:
    """Charset label of a page; None if it has none."""
    declaration = CHARSET.search(data[:4096])
    label = declaration[1].decode() if declaration else declared_label(data)
    is_utf_16 = label is not None and label.lower().startswith("utf-16")
    return "utf-8" if is_utf_16 else label  # the label was read as ASCII


class _Open(NamedTuple):
    """An element that has begun."""

    tag: str
    is_unseen: bool
    is_alone: bool
    anchor: str
    script: str
    """Name of the element of text that it is, such as `sup`."""


class _Page:
    """Builder of an outline from a page's events.

    `title` and `facts` are metadata of the page.
    """

    def __init__(self, outline: Outline, shown: ContentChoice) -> None:
        self.outline = outline
        self.title = ""
        self.facts: dict[str, str] = {}
        self._left_out, self._alone = shown
        self._open = list[_Open]()

        # Counts of open elements: not read, to be read alone, `pre`, `dl`, and cells.
        self._unseen = 0
        self._wanted = 0
        self._pre = 0
        self._lists = 0
        self._cells = 0

        # The open row: its number, its cells so far, the next column, and of each column the row
        # that is not covered by a cell above.
        self._row = 0
        self._written = 0
        self._column = 0
        self._free = dict[int, int]()

        self._line = Line()
        self._bullet = ""  # before the next text, if it begins an item
        self._separator = "\n\n"  # before the next block
        self._marks: list[str] = []  # anchors since the last block
        self._marked = 0  # number of anchors before the open heading
        self._permalink = ""  # anchor of a heading's link to itself
        self._numbers: list[int | None] = []  # last number in each open list; None for bullets
        self._is_title = False
        self._is_first_row = False

    def start(self, number: int, tag: str, attributes: Attributes) -> None:
        """Begin the element of an event's number."""
        anchor = attributes.get("id") or (attributes.get("name", "") if tag == "a" else "")
        is_permalink = tag == "a" and "headerlink" in attributes.get("class", "").split()
        is_unseen = tag in UNSEEN or is_permalink or number in self._left_out
        is_alone = number in self._alone
        script = "sup" if _is_superscript(attributes) else tag
        self._open.append(_Open(tag, is_unseen, is_alone, anchor, script))
        self._unseen += is_unseen
        self._wanted += is_alone

        # Read metadata, and add to the text.
        if tag in ("html", "meta", "title"):
            self._about(tag, attributes)
        if is_permalink:
            self._permalink = attributes.get("href", "").partition("#")[2]
        if not self._unseen:
            self._start(tag, script, attributes)
            if anchor and self._is_wanted() and len(self._marks) < MOST_MARKS:
                self._marks.append(anchor)

    def end(self) -> None:
        """End the innermost element."""
        last = self._open.pop()
        if last.tag == "title":
            self._is_title = False
        if not self._unseen:
            self._end(last)
        self._unseen -= last.is_unseen
        if last.is_alone:
            self._flush()
            self._wanted -= 1

    def data(self, text: str) -> None:
        """Add the text of the innermost element."""
        if self._is_title:
            self.title += text
        elif not self._unseen and self._is_wanted():
            self._line.append(text if self._pre else SPACES.sub(" ", text))

    def close(self) -> None:
        """End the page."""
        self._flush()
        self.title = words(self.title)

    def _is_wanted(self) -> bool:
        """True if text is read here: no element is to be read alone, or such an element is open."""
        return not self._alone or self._wanted > 0

    def _about(self, tag: str, attributes: Attributes) -> None:
        """Read an element with metadata."""
        if tag == "title":
            self._is_title = not self.title
        elif tag == "html":
            self.facts.setdefault("language", attributes.get("lang", ""))
        elif column := FACTS.get(attributes.get("name", "").lower()):
            text = words(attributes.get("content"))
            if text:
                self.facts.setdefault(column, text)

    def _start(self, tag: str, script: str, attributes: Attributes) -> None:
        """Handle the start of an element that is read."""
        if tag in BLOCKS or tag in HEADINGS:
            self._start_block(tag)
        elif tag == "br":
            self._line.append("\n")
        elif tag == "button":
            self._line.append(" ")
        elif tag in ("td", "th"):
            self._cells += 1
            self._start_cell(attributes)
        else:
            self._line.start(script)

    def _start_cell(self, attributes: Attributes) -> None:
        """Begin a cell in the next free column, after a tab for each column before it."""
        while self._free.get(self._column, 0) > self._row:
            self._column += 1
        self._line.append("\t" * (self._column - self._written))
        self._written = self._column
        for _ in range(count(attributes.get("colspan", ""))):
            self._free[self._column] = self._row + count(attributes.get("rowspan", ""))
            self._column += 1

    def _start_block(self, tag: str) -> None:
        """Begin a paragraph, a line, or a part of a line, depending on the element."""
        # Begin a line, except in a cell.
        in_cell = self._cells > 0 and tag in ("p", "div")
        if in_cell:
            self._line.append(" ")
        else:
            self._flush()
        if tag in ("ul", "ol", "li", "dl", "table"):
            self._bullet = ""
        if tag in LINES:
            self._separator = "\n\n" if tag == "tr" and self._is_first_row else "\n"
            self._is_first_row = False
        if tag == "tr":
            self._row += 1
            self._written = self._column = 0

        # What the element means for those inside it.
        if tag == "pre":
            self._pre += 1
        elif tag == "table":
            self._is_first_row = True
            self._free.clear()
        elif tag in ("ul", "ol"):
            self._numbers.append(0 if tag == "ol" else None)
        elif tag == "dl":
            self._lists += 1
        elif tag == "li" and self._is_wanted():
            number = self._numbers[-1] if self._numbers else None
            if number is not None:
                self._numbers[-1] = number + 1
            self._bullet = "- " if number is None else f"{number + 1}. "
        elif tag in HEADINGS or tag == "dt":
            self._permalink = ""
            self._marked = len(self._marks)

    def _end(self, last: _Open) -> None:
        """Handle the end of an element that is read."""
        tag = last.tag
        if tag in HEADINGS:
            self._end_heading(HEADINGS[tag], last.anchor)
        elif tag == "dt":
            first_within = self._marks[self._marked] if len(self._marks) > self._marked else ""
            anchor = last.anchor or self._permalink or first_within
            if anchor:
                self._end_heading(ENTRY + self._lists, anchor)
            else:
                self._flush()
        elif tag in ("td", "th"):
            self._cells = max(0, self._cells - 1)
        elif tag == "button":
            self._line.append(" ")
        elif tag in BLOCKS:
            self._end_block(tag)
        else:
            self._line.end(last.script)

    def _end_block(self, tag: str) -> None:
        """End a paragraph, a line or, in a cell, a part of a line."""
        if self._cells and tag in ("p", "div"):
            self._line.append(" ")
        else:
            self._flush()
        if tag == "pre":
            self._pre -= 1
        elif tag == "li":
            self._bullet = ""
        elif tag in ("ul", "ol") and self._numbers:
            self._numbers.pop()
        elif tag == "dl":
            self.outline.leave(ENTRY + self._lists)
            self._lists -= 1

    def _end_heading(self, level: int, id: str) -> None:
        """Begin a part; its anchor is the heading's, one inside it, or one just before."""
        before = self._marks[0] if self._marks else ""
        text = _strip_lines(self._line.take())
        text = self._bullet + text if text else ""
        separator = self._separator
        self._clear()
        self.outline.heading(level, text, id or self._permalink or before, separator)

    def _flush(self) -> None:
        """Add the line as a block, unless it is blank."""
        text = self._line.take()
        if not self._pre:
            text = _strip_lines(text)
        if text.strip():
            self.outline.add(self._bullet + text, self._separator)
            self._clear()

    def _clear(self) -> None:
        """Reset what applies to a single block."""
        self._bullet = ""
        self._marks.clear()
        self._separator = "\n\n"


def _is_superscript(attributes: Attributes) -> bool:
    """Return whether an element of any name is a superscript, such as the number of a note."""
    if "style" in attributes and RAISED.search(attributes["style"]):
        return True
    kind = attributes.get("epub:type") or attributes.get("role")
    return kind is not None and not NOTE_REFERENCES.isdisjoint(kind.split())


def _strip_lines(text: str) -> str:
    """Strip spaces around lines and around tabs between cells."""
    text = BLANKS.sub(" ", text)
    if "\n" in text:
        text = BREAK.sub("\n", text)
    if "\t" in text:
        text = TAB.sub("\t", text)
    return text.rstrip(" \n\t").lstrip(" \n")
