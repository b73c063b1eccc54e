"""Markdown, by markdown-it-py, reStructuredText and Jupyter notebooks: text below its headings.

Attribute lists, ``{ #id .class key=val }``, as Python-Markdown, kramdown, Pandoc and MyST write
them, and MyST's targets, ``(label)=``, are no text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from slimdex.system.json_text import parse_json

from ....documents import Lines
from .. import front_matter
from ..limits import UnreadableError
from ..outline import Extract, Outline, visible_text
from ..text_line import Line
from . import html_pages

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
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
AT_END = re.compile(rf"{ATTRIBUTE_LIST}\Z")
ID = re.compile(r"""[\s:{](?:\#|id=["']?)([^\s{}"']+)""")
HIDDEN_LINE = re.compile(rf"{ATTRIBUTE_LIST}|\([\w|@<>*./+:-]{{1,100}}\)=")
"""A line that is an attribute list or a target."""
CLOSING = re.compile(r"(?:^|\s)#+\Z")
"""Closing hashes of a heading."""
AFTER_SPAN = re.compile(rf"(?<=\S[\])*_~`:>]){ATTRIBUTE_LIST}(?!`)")
"""An attribute list directly after a link, a picture, code, emphasis, an emoji or a tag."""
ELEMENT = re.compile(r"<(/?)([a-z]+)", re.I)
TITLE = re.compile(
    r"^(?:(?P<over>([-=`:'\"~^_*+#<>.])\2{2,})[ ]*\n)?"
    r"(?P<title>[ ]?\S.*)\n(?P<under>([-=`:'\"~^_*+#<>.])\5{2,})[ ]*$",
    re.M,
)
"""A title with a line of punctuation below it, and perhaps one above."""
BREAKS = ("<br>", "<br/>", "<br />")
WORD = re.compile(r"\w+")
FARTHEST = 1 << 12
"""Characters of a source in which the next word of its text is looked for."""
OBJECT = r"<(?>Figure size [^<>]*|[\w.]+(?: object)?(?: at 0x[0-9a-f]+|: ?[^<>]*)?)>"
OBJECTS = re.compile(rf"[\[(]?{OBJECT}(?>,\s+{OBJECT})*,?[\])]?")
"""Default representations of objects, which say nothing."""
LONGEST_OUTPUT = 2000
"""Characters kept of a cell's output."""
BRACES = r"\{(?>[^{}]|\{(?>[^{}]|\{[^{}]*\})*\})*\}"
MDX = re.compile(
    r"(?P<code>\A---\n(?s:.*?)^---$"
    r"|^[ \t]*(?P<fence>`{3,}|~{3,})(?s:.*?)(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<tick>`+)(?!`)(?s:.{0,300}?)(?<!`)(?P=tick)(?!`))"
    r"|^(?:import\b.*['\"{]|export\s+(?:const|let|var|function|default|async|class|[{*])).*(?:\n.+)*"
    rf"""|</?(?=[A-Z>]|[a-z][^<>]*[{{\n])(?>[^<>{{}}"']|"[^"]*"|'[^']*'|{BRACES})*>"""
    r"|\{/\*(?s:.*?)(?:\*/\}|\Z)|^[ \t]{4,}(?=\S)",
    re.M,
)
"""Front matter and code, which stay, and syntax that is not shown: modules, tags of components,
comments, which end with the text if they are not closed, and indentation of components."""
DRAWING = re.compile(
    r"^##? Drawing$(?s:.*)|^(?:%%|==⚠.*|##? (?:Excalidraw Data|(?:Text|Embedded|Element) \w+))$"
    r"| \^[\w-]+$",
    re.M,
)
"""Drawing data of Excalidraw, which is removed from its note."""
TIME_CODES = re.compile(
    r"^WEBVTT.*(?:\n(?!.*-->).+)*|^(?:STYLE|REGION)\n(?:.+\n)*|^(?:.+\n)?.*--> ?[\d:].*"
    r"|^\d+:[\d:.]+,\d+:[\d:.]+$|^(?:\[\d+:[\d:.]+\])+|^(?:\{\d+\})+"  # SBV, LRC, MicroDVD
    r"|^\[(?:Script|V4|Aegisub|Fonts|Graphics).*\]\n(?:.+\n)*|^\[Events\]\nFormat.*"
    r"|^Comment: \d+,.*|^Dialogue:(?:[^,\n]*,){9}"  # SubStation Alpha
    r"|<[^<>\n]*>|\{(?:\\|\w:)[^{}\n]*\}",  # tags
    re.M,
)
"""Time codes, headers and tags of subtitles, which are removed."""
SHOWN = re.compile(r"""\b(?:title|label|caption|alt|description)=["']([^"']+)""")
"""Attributes that components show."""


def read(text: str) -> Extract:
    r"""Read a text with optional front matter, which may have the title; else it is a heading.

    Without either, the title is empty, and the document gets its file's name.

    >>> tea = read("---\ntags: [drinks, hot]\n---\n# Tea\n\nBoil *fresh* [water](tap.md).")
    >>> tea.title, tea.text, tea.facts["tags"], tea.parts[0].anchor
    ('Tea', 'Tea\n\nBoil fresh water.', ['drinks', 'hot'], 'tea')
    """
    text = visible_text(text)
    values, body = front_matter.split_front_matter(text)
    outline = Outline()
    about = front_matter.facts(values)
    first_line = 1 + text.count("\n", 0, len(text) - len(body))  # after the front matter
    if "excalidraw-plugin" in values:
        body = DRAWING.sub("", body)
    feed(outline, body, line=first_line)
    title = about.pop("title", "") or outline.top_heading
    if not outline.text and "description" in about:  # as in a note on a picture or a link
        outline.add(about["description"])
    return Extract(title, outline.text, outline.parts, about)


def read_mdx(text: str) -> Extract:
    """Read MDX, Markdown with components; some attributes of their tags are text."""
    return read(MDX.sub(_shown, text))


def _shown(found: re.Match[str]) -> str:
    """Replacement for a match of `MDX`: the code without indentation, or the shown attributes."""
    if found["code"]:
        return dedent(found[0])
    return " ".join([*SHOWN.findall(found[0]), "\n" * found[0].count("\n")])


def feed(
    outline: Outline, text: str, taken: Counter[str] | None = None, line: int | None = None
) -> None:
    """Append a text to an outline.

    `taken` are earlier anchors, to number duplicates; `line` is the line of the file in which the
    text begins, if these are to be kept.
    """
    from markdown_it import MarkdownIt  # an optional library

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = parser.use(attribute_lists).use(footnotes).parse(text)
    _Reader(outline, text.split("\n"), Counter() if taken is None else taken, line).read(tokens)


def slug(heading: str) -> str:
    """Anchor that GitHub and others give a heading.

    >>> slug("What's new in 3.2?")
    'whats-new-in-32'
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


class _Reader:
    """Adds blocks of a Markdown text to an outline; for `taken` and `line`, see `feed`."""

    def __init__(
        self, outline: Outline, source: Sequence[str], taken: Counter[str], line: int | None
    ) -> None:
        self._outline = outline
        self._source = source  # lines
        self._taken = taken
        self._first_line = line
        self._numbers: list[int | None] = []  # next number in each open list; None with bullets
        self._bullet = ""  # of the next block, if it begins an item
        self._heading = 0  # level of the open heading; 0 if none is open
        self._anchor = ""  # stated by the heading
        self._rows = 0
        self._cells: list[str] | None = None  # of the open row
        self._row: Lines = ()

    def read(self, tokens: list[Any]) -> None:
        """Read blocks in order."""
        for token in tokens:
            kind = token.type
            if kind == "heading_open":
                self._heading = int(token.tag[1:])
                self._anchor = token.attrs.get("id", "")
            elif kind == "heading_close":
                self._heading = 0
            elif kind == "inline":
                line = Line()
                _add_visible(line, token.children)
                self._say(line.take().strip("\n"), token)
            elif kind in ("fence", "code_block"):
                first_line = 1 if kind == "fence" else 0  # after the line of the fence
                self._say(token.content, token, [(0, first_line)])
            elif kind == "html_block":
                self._say(_without_tags(token.content), token)
            # Lists and tables, whose texts come between these tokens.
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
                self._row = self._lines("", token, [(0, 0)])
            elif kind == "tr_close":
                cells = self._cells or []
                self._cells = None
                separator = "\n" if self._rows else "\n\n"
                self._outline.add("\t".join(cells), separator, self._row)
                self._rows += 1

    def _lines(self, text: str, token: Token, lines: Lines = (), before: int = 0) -> Lines:
        """Lines of the file that have a token's text, or `lines` within it; [] if unknown.

        Offsets are moved by `before`, the characters of the block that precede the text.
        """
        if self._first_line is None or token.map is None:
            return []
        start, end = token.map
        lines = lines or lines_within(text, "\n".join(self._source[start:end]))
        first = self._first_line + start
        return [(offset and before + offset, first + number) for offset, number in lines]

    def _begin_item(self) -> None:
        """Set the bullet or number of an item, indented by the depth of its list."""
        number = self._numbers[-1]
        indent = "  " * (len(self._numbers) - 1)
        self._bullet = indent + ("- " if number is None else f"{number}. ")
        if number is not None:
            self._numbers[-1] = number + 1

    def _say(self, text: str, token: Token, lines: Lines = ()) -> None:
        """Add the text of a token; `lines` are those within the token, from 0, if known."""
        if self._cells is not None:
            self._cells.append(" ".join(text.split()))
        elif self._heading:
            self._say_heading(text, self._lines(text, token))
        else:
            separator = "\n" if self._bullet else "\n\n"
            placed = self._lines(text, token, lines, len(self._bullet))
            self._outline.add(self._bullet + text, separator, placed)
            self._bullet = ""

    def _say_heading(self, text: str, lines: Lines) -> None:
        """Add a heading, with the anchor that it states or else one made from its text."""
        anchor = self._anchor
        if not anchor:
            anchor = slug(text)
            before = self._taken[anchor]  # earlier headings with this anchor
            self._taken[anchor] += 1
            anchor = f"{anchor}-{before}" if before else anchor
        self._outline.heading(self._heading, text, anchor, lines=lines)


def _add_visible(line: Line, tokens: Sequence[Token] | None) -> None:
    """Add the visible text of inline tokens."""
    for token in tokens or []:
        if token.type == "image":
            _add_visible(line, token.children)
        elif token.type in ("softbreak", "hardbreak") or token.content.lower() in BREAKS:
            line.append("\n")
        elif token.type == "html_inline":
            _add_tag(line, token.content)
        else:
            line.append(token.content)


def _add_tag(line: Line, text: str) -> None:
    """Begin or end the element of a tag, such as a superscript."""
    tag = ELEMENT.match(text)
    if tag and tag[1]:
        line.end(tag[2].lower())
    elif tag:
        line.start(tag[2].lower())


def lines_within(text: str, source: str) -> Lines:
    """Lines of a source, from 0, in which words of a text that is extracted from it are.

    >>> lines_within("Tea\\nBoil it", "<p>\\nTea</p>\\n\\n<p>Boil\\nit</p>")
    [(0, 1), (4, 3), (9, 4)]
    """
    lines = list[tuple[int, int]]()
    done = 0
    number = 0
    for word in WORD.finditer(text):
        offset = source.find(word[0], done, done + FARTHEST)
        if offset >= 0:
            end = offset + len(word[0])
            number += source.count("\n", done, end)
            done = end
            lines.append((word.start() if lines else 0, number))
    return lines


def _without_tags(text: str) -> str:
    """Visible text of inline HTML."""
    if text.lstrip().startswith("<!--") and text.rstrip().endswith("-->"):
        return ""
    return html_pages.text_of(text)


def attribute_lists(parser: MarkdownIt) -> None:
    """Add a rule to a parser: remove attribute lists, and give headings their ids.

    >>> from markdown_it import MarkdownIt
    >>> MarkdownIt().use(attribute_lists).render("# The set {1, 2} { #set .wide }")
    '<h1 id="set">The set {1, 2}</h1>\\n'
    """
    parser.core.ruler.before("inline", "attribute_lists", _without_lists)


def footnotes(parser: MarkdownIt) -> None:
    """Keep notes such as `[^1]: Ibid.`, which have the form of a link's definition, as text.

    >>> from markdown_it import MarkdownIt
    >>> MarkdownIt().use(footnotes).render("[^1]: Ibid.")
    '<p>[^1]: Ibid.</p>\\n'
    """
    from markdown_it.rules_block import reference  # an optional library

    def rule(state: StateBlock, first: int, last: int, silent: bool) -> bool:
        start = state.bMarks[first] + state.tShift[first]
        return not state.src.startswith("[^", start) and reference(state, first, last, silent)

    parser.block.ruler.at("reference", rule)


def _without_lists(state: StateCore) -> None:
    """Remove lists at the end of headings and cells, on lines of their own, and after spans."""
    for before, token in pairwise(state.tokens):
        if token.type != "inline":
            continue
        if before.type in ("heading_open", "td_open", "th_open"):
            token.content, id = _without_list(token.content)
            if id:
                before.attrSet("id", id)
        else:
            lines = token.content.split("\n")
            shown = (line for line in lines if not HIDDEN_LINE.fullmatch(line))
            token.content = "\n".join(shown)
        token.content = AFTER_SPAN.sub("", token.content)


def _without_list(text: str) -> tuple[str, str]:
    """Remove a list from the end of a text; return it with the list's last id.

    >>> _without_list("Tea ## { #tea .hot }"), _without_list("A code, `{ #x }`")
    (('Tea', 'tea'), ('A code, `{ #x }`', ''))
    """
    attributes = AT_END.search(text)
    if attributes is None:
        return text, ""
    ids = ["", *ID.findall(attributes[0])]
    return CLOSING.sub("", text[: attributes.start()].rstrip()).rstrip(), ids[-1]


def read_rst(text: str) -> Extract:
    r"""Read a text; its title is the first heading.

    Levels are those of the lines of punctuation in the order in which they occur.

    >>> tea = read_rst("Tea\n===\n\nBoil fresh water.\n")
    >>> tea.title, tea.text, tea.parts[0].anchor
    ('Tea', 'Tea\n\nBoil fresh water.', 'tea')
    """
    text = visible_text(text)
    outline = Outline()
    styles = list[tuple[str, bool]]()
    done = 0
    line = 1
    for heading in TITLE.finditer(text):
        title = heading["title"].strip()
        under = heading["under"]
        if len(under) < len(title):  # no title
            continue

        # The level is the position of the style among those of earlier headings.
        is_overlined = heading["over"] == under
        style = (under[0], is_overlined)
        if style not in styles:
            styles.append(style)

        # The text before the heading, and the heading.
        start = heading.start(0 if is_overlined else "title")
        outline.add(text[done:start], lines=[(0, line)])
        line += text.count("\n", done, heading.start("title"))
        outline.heading(styles.index(style) + 1, title, slug(title), lines=[(0, line)])
        done = heading.end()
        line += text.count("\n", heading.start("title"), done)
    outline.add(text[done:], lines=[(0, line)])
    return Extract(outline.first_heading, outline.text, outline.parts)


def read_subtitles(text: str) -> Extract:
    """Read subtitles without their time codes."""
    return read_plain(
        TIME_CODES.sub(lambda found: "\n" * found[0].count("\n"), text.replace("\\N", " "))
    )


def read_plain(text: str) -> Extract:
    """Read a text, all of whose lines are those of its file."""
    outline = Outline()
    outline.add(text, lines=[(0, 1)])
    return Extract("", outline.text, outline.parts)


def read_drawing(text: str) -> Extract:
    r"""Read the labels of a drawing of Excalidraw, or the cards of a canvas of Obsidian.

    >>> read_drawing('{"elements": [{"text": "a-b", "originalText": "ab"}, {"x": 1}]}').text
    'ab'
    >>> read_drawing('{"nodes": [{"text": "Ask"}, {"file": "a"}], "edges": [{"label": "if"}]}').text
    'Ask\n\nif'
    """
    shapes = list[dict[str, Any]]()
    json.loads(text, object_hook=shapes.append)
    names = ("originalText", "text", "label")  # the first one is not wrapped
    texts = (next(filter(None, map(shape.get, names)), "") for shape in shapes)
    return read_plain("\n\n".join(filter(None, texts)))


def read_notebook(text: str) -> Extract:
    """Read a notebook of format 3 or 4; every cell is a part.

    Raises `UnreadableError` if it is not one.
    """
    try:
        return _notebook(parse_json(text))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise UnreadableError(f"not a notebook: {str(error)[:100]}") from error


def _notebook(book: dict[str, Any]) -> Extract:
    """Read the cells of a notebook, and its title."""
    outline = Outline()
    taken = Counter[str]()
    sheets = [book] if "cells" in book else book["worksheets"]  # of format 3
    for cell in chain.from_iterable(sheet["cells"] for sheet in sheets):
        outline.part(f"cell-id={cell['id']}" if cell.get("id") else "")
        kind = cell.get("cell_type")
        source = _text(cell.get("source", cell.get("input")))  # the latter of code in format 3
        if kind == "heading":  # of format 3
            level = min(max(int(cell.get("level", 1)), 1), 6)
            feed(outline, f"{'#' * level} {' '.join(source.split())}", taken)
        elif kind == "markdown":
            feed(outline, source, taken)
        else:
            outline.add(source)
            for output in cell.get("outputs", []):
                outline.add(_output(output)[:LONGEST_OUTPUT])
    title = _text(book.get("metadata", {}).get("title", "")) or outline.top_heading
    return Extract(title, outline.text, outline.parts)


def _output(output: dict[str, Any]) -> str:
    """Text of a cell's output, of its richest form if the plain one is only a name of an object."""
    if output.get("output_type") in ("error", "pyerr"):
        return f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
    forms = output | {kind.partition("/")[2]: v for kind, v in output.get("data", {}).items()}

    # Prefer plain text, unless it only names an object; then take the most readable form.
    plain = _text(output.get("text") or forms.get("plain"))
    if plain.strip() and not OBJECTS.fullmatch(plain.strip()):
        return plain
    if markdown := _text(forms.get("markdown")):
        outline = Outline()
        feed(outline, markdown)
        return outline.text
    if html := _text(forms.get("html")):
        return html_pages.text_of(html)
    if latex := _text(forms.get("latex")):
        return latex
    return json.dumps(forms["json"], ensure_ascii=False) if forms.get("json") else ""


def _text(lines: Any) -> str:
    """Join a text that may be a list of lines, or null."""
    if lines is None:
        return ""
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines)
