"""HTML: visible text of a page, and the anchors that links can point to.

Pages are parsed as events, not as a tree, so deep nesting costs no more than length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from ..decoding import codec_of, declared_label, decoded
from ..front_matter import moment
from ..outline import Extract, Outline, words

HEADINGS = {f"h{level}": level for level in range(1, 7)}
ENTRY = 10
"""Level of a `dt` with an anchor: below all headings, deeper in nested lists."""
BLOCKS = frozenset([
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details",
    "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form",
    "header", "hr", "legend", "li", "main", "menu", "nav", "ol", "p", "pre", "section", "summary",
    "table", "tbody", "tfoot", "thead", "tr", "ul",
])  # fmt: skip
UNSEEN = frozenset([
    "script", "style", "template", "noscript", "svg", "iframe", "object", "button", "select",
    "textarea", "nav", "head", "video", "audio", "canvas", "datalist", "rp",
])  # fmt: skip
BESIDE = ("header", "footer", "aside")
"""Elements of the page's frame, unless inside its main content."""
LINES = ("li", "dt", "dd", "tr", "caption", "summary")
"""Elements that begin a line, not a paragraph."""
ROLES = frozenset(["navigation", "banner", "contentinfo", "search", "complementary"])
CLASSES = frozenset(
    ["sphinxsidebar", "related", "navbar", "sidebar", "breadcrumb", "breadcrumbs", "noprint"]
)
MOST_MARKS = 32
"""Anchors remembered before a heading; the first is used."""
MAIN = re.compile(rb"""<main\b|\brole\s*=\s*["']?main\b""", re.I)
ARTICLE = re.compile(rb"<article\b", re.I)
CHARSET = re.compile(rb"""<meta[^<>]+charset\s*=\s*+["']?\s*+([\w.:-]+)""", re.I)
FACTS = {"author": "author", "keywords": "tags", "description": "description", "date": "date"}
"""Names of `meta` elements -> columns."""
Attributes = Mapping[str, str]


def read(data: bytes, encoding: str | None = None) -> Extract:
    """Read a page; a title that extends the first heading is cut to it.

    >>> page = read(b"<title>Tea - My site</title><nav>Home</nav><h1 id=t>Tea</h1><p>Boil <b>it")
    >>> page.title, page.text, page.parts[0].anchor
    ('Tea', 'Tea\\n\\nBoil it', 't')
    """
    outline = Outline()
    page = feed(outline, page_text(data, encoding))
    heading = outline.first_heading
    title = heading if page.title.startswith(heading) and heading else page.title
    found = {column: text for column, text in page.facts.items() if text}
    date = {"date": moment(found["date"])} if "date" in found else {}
    return Extract(title, outline.text, outline.parts, found | date)


def text_of(text: str) -> str:
    """Visible text of a page or fragment."""
    outline = Outline()
    feed(outline, text)
    return outline.text


def page_text(data: bytes, encoding: str | None = None, label: str | None = None) -> str:
    r"""Decode a page by a label of its mail, or by its own.

    >>> page_text(b"<meta charset=latin1>\x93Tea\x94")
    '<meta charset=latin1>“Tea”'
    """
    return decoded(data, encoding, label or _label(data))


def feed(outline: Outline, text: str) -> _Page:
    """Append a page to an outline; return it, with its title and facts."""
    page, data = _Page(outline), text.encode("utf-8", "replace")
    wanted = "main" if MAIN.search(data) else ""
    if not wanted and len(ARTICLE.findall(data)) == 1:
        wanted = "article"
    if not (page.read(data, wanted) or not wanted):
        page.read(data, "")  # the element was in a comment or a script
    return page


def _label(data: bytes) -> str | None:
    """Charset label of a page, which is of ASCII up to the label."""
    found = CHARSET.search(data[:4096])
    label = found[1].decode() if found else declared_label(data)
    codec = codec_of(label) if label else None
    if codec in ("utf-16-le", "utf-16-be"):
        return "utf-8"
    return "windows-1252" if codec == "x-user-defined" else label


class _Open(NamedTuple):
    tag: str
    unseen: bool
    main: bool
    anchor: str


class _Page:
    """Handler of a parser's events.

    `title` and `facts` are metadata of the page.
    """

    def __init__(self, outline: Outline) -> None:
        self.outline, self.title = outline, ""
        self.facts: dict[str, str] = {}

    def read(self, data: bytes, wanted: str) -> bool:
        """Read the page, or its elements `main` or `article`; return whether there was any text."""
        from lxml import etree

        self._open: list[_Open] = []
        self._unseen = self._mains = self._pre = self._lists = self._cells = 0
        self._wanted = wanted
        self._line: list[str] = []
        self._separator = "\n\n"
        self._marks: list[str] = []
        self._permalink, self._marked = "", 0
        self._numbers: list[int | None] = []
        self._is_title = self._is_first_row = False
        before = len(self.outline.text)
        parser = etree.HTMLParser(target=self, encoding="utf-8", huge_tree=True)
        parser.feed(data or b" ")
        parser.close()
        self._flush()
        return len(self.outline.text) > before

    def start(self, tag: str, attributes: Attributes) -> None:
        anchor = attributes.get("id") or (attributes.get("name", "") if tag == "a" else "")
        is_main = tag == self._wanted or (
            self._wanted == "main" and attributes.get("role", "").lower() == "main"
        )
        unseen = self._is_unseen(tag, attributes)
        self._open.append(_Open(tag, unseen, is_main, anchor))
        self._unseen += unseen
        self._mains += is_main
        if tag == "html":
            self.facts.setdefault("language", attributes.get("lang", ""))
        elif tag == "meta":
            self._meta(attributes)
        elif tag == "title" and not self.title:
            self._is_title = True
        if tag == "a" and "headerlink" in attributes.get("class", "").split():
            self._permalink = attributes.get("href", "").partition("#")[2]
        if self._unseen:
            return
        if tag in BLOCKS or tag in HEADINGS:
            self._start_block(tag, attributes)
        elif tag == "br":
            self._line.append("\n")
        elif tag == "rt":  # the reading of the characters before it
            self.data("(")
        elif tag in ("td", "th"):
            self._cells += 1
        if anchor and self._is_wanted() and len(self._marks) < MOST_MARKS:
            self._marks.append(anchor)

    def end(self, tag: str) -> None:
        """Handle the end of an element and of unclosed ones within it."""
        while self._open:
            last = self._open.pop()
            self._end(last)
            if last.tag == tag:
                return

    def data(self, text: str) -> None:
        if self._is_title:
            self.title += text
        elif not self._unseen and self._is_wanted():
            self._line.append(text if self._pre else re.sub(r"\s+", " ", text))

    def close(self) -> None:
        self.title = words(self.title)

    def _is_wanted(self) -> bool:
        return not self._wanted or self._mains > 0

    def _is_unseen(self, tag: str, attributes: Attributes) -> bool:
        if tag in UNSEEN or "hidden" in attributes:
            return True
        above = islice(reversed(self._open), 64)
        if tag in BESIDE and not any(e.tag in ("main", "article", "section") for e in above):
            return True
        classes = attributes.get("class", "").lower().split()
        return (
            attributes.get("role", "").lower() in ROLES
            or not CLASSES.isdisjoint(classes)
            or (tag == "a" and "headerlink" in classes)
        )

    def _meta(self, attributes: Attributes) -> None:
        column = FACTS.get(attributes.get("name", "").lower())
        if column and (text := words(attributes.get("content"))):
            self.facts.setdefault(column, text)

    def _start_block(self, tag: str, attributes: Attributes) -> None:
        in_cell = self._cells > 0 and tag in ("p", "div")
        # A bullet is the first piece of its line; a cell's line may have thousands.
        before = "".join(self._line).strip() if len(self._line) < MOST_MARKS else ""
        is_bullet = bool(before) and before in self._bullet()
        after_bullet = is_bullet and tag not in ("ul", "ol", "li", "dl", "table")
        if in_cell or after_bullet:
            self._line.append("" if after_bullet else " ")
        else:
            self._flush()
        if tag in LINES:
            self._separator = "\n\n" if tag == "tr" and self._is_first_row else "\n"
            self._is_first_row = False
        if tag == "pre":
            self._pre += 1
        elif tag == "table":
            self._is_first_row = True
        elif tag in ("ul", "ol"):
            self._numbers.append(0 if tag == "ol" else None)
        elif tag == "dl":
            self._lists += 1
        elif tag == "li" and self._is_wanted():
            if self._numbers and self._numbers[-1] is not None:
                self._numbers[-1] += 1
            self._line.append(f"{self._bullet()[-1]} ")
        elif tag in HEADINGS or tag == "dt":
            self._permalink, self._marked = "", len(self._marks)

    def _bullet(self) -> tuple[str, ...]:
        number = self._numbers[-1] if self._numbers else None
        return ("", "-") if number is None else ("", f"{number}.")

    def _end(self, last: _Open) -> None:
        tag = last.tag
        if tag == "title":
            self._is_title = False
        if not self._unseen:
            if tag in HEADINGS:
                self._end_heading(HEADINGS[tag], last.anchor)
            elif tag == "dt":
                within = self._marks[self._marked] if len(self._marks) > self._marked else ""
                anchor = last.anchor or self._permalink or within
                self._end_heading(ENTRY + self._lists, anchor) if anchor else self._flush()
            elif tag in ("td", "th"):
                self._cells = max(0, self._cells - 1)
                if self._line:
                    self._line.append("\t")
            elif tag == "rt":
                self.data(")")
            elif tag in BLOCKS:
                self._end_block(tag)
        self._unseen -= last.unseen
        if last.main:
            self._flush()
            self._mains -= 1

    def _end_block(self, tag: str) -> None:
        if self._cells and tag in ("p", "div"):
            self._line.append(" ")
        else:
            self._flush()
        if tag == "pre":
            self._pre -= 1
        elif tag in ("ul", "ol") and self._numbers:
            self._numbers.pop()
        elif tag == "dl":
            self.outline.leave(ENTRY + self._lists)
            self._lists -= 1

    def _end_heading(self, level: int, own: str) -> None:
        """Begin a part; its anchor is the heading's, one inside it, or one just before."""
        before = self._marks[0] if self._marks else ""
        text = _lined("".join(self._line))
        separator = self._separator
        self._clear()
        self.outline.heading(level, text, own or self._permalink or before, separator)

    def _flush(self) -> None:
        text = "".join(self._line)
        if not self._pre:
            text = _lined(text)
        if text.strip() and text.strip() not in self._bullet():
            self.outline.add(text, self._separator)
            self._clear()
        else:
            self._line.clear()

    def _clear(self) -> None:
        self._line.clear()
        self._marks.clear()
        self._separator = "\n\n"


def _lined(text: str) -> str:
    """Strip spaces around lines and around tabs between cells."""
    text = re.sub(r" ?\n ?", "\n", re.sub(r"[ \xa0]+", " ", text))
    return re.sub(r" ?\t ?", "\t", text).strip(" \n\t")
