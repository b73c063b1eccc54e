"""Markdown, by markdown-it-py, reStructuredText and Jupyter notebooks: text below its headings.

Attribute lists, ``{ #id .class key=val }``, as Python-Markdown, kramdown, Pandoc and MyST write
them, and MyST's targets, ``(label)=``, are no text.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from slimdex.indexes.json_text import parsed

from .. import front_matter
from ..limits import UnreadableError
from ..outline import Extract, Outline
from ..text_line import Line
from . import html_pages

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

LINES = ("bullet_list_open", "ordered_list_open")
ATTRIBUTE = (
    r"""(?>\#[^\s{}"'=]+|\.[A-Za-z_-][^\s{}"'=]*|-(?=[ \t}])|data-[\w-]+(?=[ \t}])"""
    r"""|[A-Za-z][\w:-]+=(?>"[^"\n]*"|'[^'\n]*'|[^\s"'{}=]+))"""
)
"""An id, a class, or a key with a value. Without a colon before it, a word alone, as in `{x}`, is
text, and so is a key of one letter, as in `{n=1}`."""
ITEM = rf"(?>{ATTRIBUTE}|[\w-]+)"
ATTRIBUTE_LIST = (
    rf"(?<![\\{{])\{{(?>:[ \t]*{ITEM}|[ \t]*{ATTRIBUTE})(?>[ \t]+{ITEM})*[ \t]*\}}(?!\}})"
)
ATTRIBUTES, AT_END = re.compile(ATTRIBUTE_LIST), re.compile(rf"{ATTRIBUTE_LIST}\Z")
ID = re.compile(r"""[\s:{](?:\#|id=["']?)([^\s{}"']+)""")
TARGET = re.compile(r"\(([\w|@<>*./+:-]{1,100})\)=")
CLOSING = re.compile(r"(?:^|\s)#+\Z")
"""Closing hashes of a heading."""
NAMELESS = re.compile(r"(?:\]|:[\w+-]{1,64}:)\Z")
"""End of a span in brackets or of an emoji, which are no tokens."""
TOKENS = ("link_close", "image", "code_inline", "html_inline")
PARAGRAPH = ("paragraph_open", "paragraph_close", "inline", "heading_close")
TAG = re.compile(r"<(/?)([a-z]+)", re.I)
TITLE = re.compile(
    r"^(?:(?P<over>([-=`:'\"~^_*+#<>.])\2{2,})[ ]*\n)?"
    r"(?P<title>[ ]?\S.*)\n(?P<under>([-=`:'\"~^_*+#<>.])\5{2,})[ ]*$",
    re.M,
)
"""A title with a line of punctuation below it, and perhaps one above."""
LONGEST_OUTPUT = 2000
"""Characters kept of a cell's output."""


def read(text: str) -> Extract:
    r"""Read a text with optional front matter, which may have the title; else it is a heading.

    Without either, the title is empty, and the document gets its file's name.

    >>> tea = read("---\ntags: [drinks, hot]\n---\n# Tea\n\nBoil *fresh* [water](tap.md).")
    >>> tea.title, tea.text, tea.facts["tags"], tea.parts[0].anchor
    ('Tea', 'Tea\n\nBoil fresh water.', ['drinks', 'hot'], 'tea')
    """
    values, body = front_matter.split(text)
    outline = Outline()
    feed(outline, body)
    lowered = {key.lower(): value for key, value in values.items()}
    title = front_matter.as_text(lowered.get("title", "")) or outline.top_heading
    return Extract(title, outline.text, outline.parts, front_matter.facts(values))


def feed(outline: Outline, text: str, taken: Counter[str] | None = None) -> None:
    """Append a text to an outline.

    `taken` are earlier anchors, to number duplicates.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).use(attribute_lists)
    _Reader(outline, Counter() if taken is None else taken).read(parser.parse(text))


def slug(heading: str) -> str:
    """Anchor that GitHub and others give a heading.

    >>> slug("What's new in 3.2?")
    'whats-new-in-32'
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


class _Reader:
    def __init__(self, outline: Outline, taken: Counter[str]) -> None:
        self._outline, self._taken = outline, taken
        self._numbers: list[int | None] = []
        self._bullet = ""
        self._heading = self._rows = 0
        self._anchor = ""
        self._cells: list[str] | None = None

    def read(self, tokens: list[Any]) -> None:
        """Read blocks in order."""
        for token in tokens:
            kind = token.type
            if kind == "heading_open":
                self._heading, self._anchor = int(token.tag[1:]), token.attrs.get("id", "")
            elif kind == "heading_close":
                self._heading = 0
            elif kind == "inline":
                self._say(_inline(token.children or []))
            elif kind in ("fence", "code_block"):
                self._say(token.content)
            elif kind == "html_block":
                self._say(_without_tags(token.content))
            elif kind in LINES:
                self._numbers.append(
                    int(token.attrs.get("start", 1)) if token.tag == "ol" else None
                )
            elif kind in ("bullet_list_close", "ordered_list_close"):
                self._numbers.pop()
            elif kind == "list_item_open":
                self._begin_item()
            elif kind == "table_open":
                self._rows = 0
            elif kind == "tr_open":
                self._cells = []
            elif kind == "tr_close":
                cells, self._cells = self._cells or [], None
                self._outline.add("\t".join(cells), "\n" if self._rows else "\n\n")
                self._rows += 1

    def _begin_item(self) -> None:
        number = self._numbers[-1]
        self._bullet = "  " * (len(self._numbers) - 1) + ("- " if number is None else f"{number}. ")
        if number is not None:
            self._numbers[-1] = number + 1

    def _say(self, text: str) -> None:
        if self._cells is not None:
            self._cells.append(" ".join(text.split()))
        elif self._heading:
            self._say_heading(text)
        else:
            self._outline.add(self._bullet + text, "\n" if self._bullet else "\n\n")
            self._bullet = ""

    def _say_heading(self, text: str) -> None:
        if self._anchor:
            self._outline.heading(self._heading, text, self._anchor)
            return
        anchor = slug(text)
        before = self._taken[anchor]
        self._taken[anchor] += 1
        self._outline.heading(self._heading, text, f"{anchor}-{before}" if before else anchor)


def _inline(tokens: list[Any]) -> str:
    """Visible text of inline tokens: descriptions of pictures, no tags."""
    line = Line()
    for token in tokens:
        if token.type == "image":
            line.append(_inline(token.children or []))
        elif token.type == "softbreak":
            line.append(" ")
        elif token.type == "hardbreak" or token.content.lower() in ("<br>", "<br/>", "<br />"):
            line.append("\n")
        elif token.type == "html_inline":
            _add_tag(line, token.content)
        else:
            line.append(token.content)
    return line.take()


def _add_tag(line: Line, text: str) -> None:
    """Begin or end the element of a tag, such as a superscript."""
    tag = TAG.match(text)
    if tag and tag[1]:
        line.end(tag[2].lower())
    elif tag:
        line.start(tag[2].lower())


def _without_tags(text: str) -> str:
    """Visible text of inline HTML."""
    if text.lstrip().startswith("<!--") and text.rstrip().endswith("-->"):
        return ""
    return html_pages.text_of(text)


def attribute_lists(parser: MarkdownIt) -> None:
    """Add rules to a parser, by which lists are no text, and the ids of headings are attributes.

    >>> from markdown_it import MarkdownIt
    >>> MarkdownIt().use(attribute_lists).render("# The set {1, 2} { #set .wide }")
    '<h1 id="set">The set {1, 2}</h1>\\n'
    """
    parser.core.ruler.before("inline", "attribute_lists", _of_blocks)
    parser.inline.ruler.push("attribute_lists", _of_spans)


def _of_blocks(state: StateCore) -> None:
    """Remove lists at the end of headings and cells, and on lines of their own."""
    heading: Token | None = None
    label = ""
    for before, token in pairwise(state.tokens):
        if before.type == "heading_open":
            token.content, own = _shortened(token.content)
            heading = before
            if own or label:
                heading.attrSet("id", own or label)
            label = ""
        elif token.type == "inline" and before.type in ("td_open", "th_open"):
            token.content, _ = _shortened(token.content)
        elif token.type == "inline":
            above = heading if heading and _is_below(token, heading) else None
            token.content, found = _without_lines(token.content)
            if above and found and not token.content:
                above.attrSet("id", found)
            else:
                label = "" if token.content else found or label
        elif token.type not in PARAGRAPH and token.type != "heading_open":
            label = ""


def _is_below(token: Token, heading: Token) -> bool:
    """Return whether a list is of the heading directly above it, as in kramdown."""
    ends, begins = heading.map or [0, -1], token.map or [-2, 0]
    return token.content.startswith("{:") and bool(ends[1] == begins[0])


def _shortened(text: str) -> tuple[str, str]:
    """Remove lists from the end of a text; return it with the last id.

    >>> _shortened("Tea ## { #tea .hot }"), _shortened("A code, `{ #x }`")
    (('Tea', 'tea'), ('A code, `{ #x }`', ''))
    """
    id = ""
    while found := AT_END.search(text):
        id = id or _id(found[0])
        text = CLOSING.sub("", text[: found.start()].rstrip()).rstrip()
    return text, id


def _without_lines(text: str) -> tuple[str, str]:
    """Remove lines that are lists or targets; return the rest with the last id."""
    lines, id = list[str](), ""
    for line in text.split("\n"):
        if ATTRIBUTES.fullmatch(line):
            id = _id(line) or id
        elif target := TARGET.fullmatch(line):
            id = target[1]
        else:
            lines.append(line)
    return "\n".join(lines), id


def _id(attributes: str) -> str:
    return next(reversed(ID.findall(attributes)), "")


def _of_spans(state: StateInline, silent: bool) -> bool:
    """Skip a list directly after a link, a picture, code, emphasis or the like."""
    if state.src[state.pos] != "{":
        return False
    found = ATTRIBUTES.match(state.src, state.pos, state.posMax)
    last = state.tokens[-1] if state.tokens and not state.pending else None
    is_marked = last is not None and (last.type in TOKENS or not last.content.strip("*_~"))
    if not found or not (is_marked or NAMELESS.search(state.pending[-70:])):
        return False
    if not silent:
        state.pos = found.end()
    return True


def read_rst(text: str) -> Extract:
    r"""Read a text; its title is the first heading.

    Levels are those of the lines of punctuation in the order in which they occur.

    >>> tea = read_rst("Tea\n===\n\nBoil fresh water.\n")
    >>> tea.title, tea.text, tea.parts[0].anchor
    ('Tea', 'Tea\n\nBoil fresh water.', 'tea')
    """
    outline, styles, done = Outline(), list[tuple[str, bool]](), 0
    for found in TITLE.finditer(text):
        title, under = found["title"].strip(), found["under"]
        if len(under) < len(title):
            continue
        is_overlined = found["over"] == under
        style = (under[0], is_overlined)
        if style not in styles:
            styles.append(style)
        outline.add(text[done : found.start(0 if is_overlined else "title")])
        outline.heading(styles.index(style) + 1, title, slug(title))
        done = found.end()
    outline.add(text[done:])
    return Extract(outline.first_heading, outline.text, outline.parts)


def read_notebook(text: str) -> Extract:
    """Read a notebook of any format, from 1 of 2011 on; every cell is a part.

    Raises `UnreadableError` if it is not one.
    """
    try:
        return _notebook(parsed(text))
    except (AttributeError, TypeError, ValueError) as error:
        raise UnreadableError(f"not a notebook: {str(error)[:100]}") from error


def _notebook(book: dict[str, Any]) -> Extract:
    outline, taken = Outline(), Counter[str]()
    for cell in _cells(book):
        outline.part(f"cell-id={cell['id']}" if cell.get("id") else "")
        kind, source = cell.get("cell_type"), _source(cell)
        if kind == "heading":  # of format 3
            level = min(max(int(cell.get("level", 1)), 1), 6)
            feed(outline, f"{'#' * level} {' '.join(source.split())}", taken)
        elif kind in ("markdown", "text"):
            feed(outline, source, taken)
        elif kind == "html":  # of formats 2 and 3
            outline.add(html_pages.text_of(source))
        else:
            outline.add(source)
            for output in cell.get("outputs", []):
                shown = output.get("text") or output.get("data", {}).get("text/plain", "")
                outline.add(_text(shown)[:LONGEST_OUTPUT])
    title = _text(book.get("metadata", {}).get("title", "")) or outline.top_heading
    return Extract(title, outline.text, outline.parts)


def _cells(book: dict[str, Any]) -> list[dict[str, Any]]:
    """Cells, which formats 2 and 3 divide among worksheets."""
    if "cells" not in book and "worksheets" not in book:
        raise ValueError("neither cells nor worksheets")
    sheets = [book, *book.get("worksheets", [])]
    return [cell for sheet in sheets for cell in sheet.get("cells", [])]


def _source(cell: dict[str, Any]) -> str:
    """Source of a cell; formats up to 3 name it otherwise."""
    names = ("source", "input", "code", "text")
    return _text(next((cell[name] for name in names if name in cell), ""))


def _text(lines: Any) -> str:
    """Join a text that may be a list of lines."""
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines)
