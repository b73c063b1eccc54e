"""XML: feeds, DocBook, SVG, property lists and others, and the parser of office files and books.

Texts are below their titles. An element with text of its own is a paragraph, and elements in it are
a part of that paragraph. Where a file's words are in attributes, these are read.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from html.entities import html5
from typing import Any, NamedTuple

from ..decoding import declared_label, decode_text
from ..front_matter import moment
from ..limits import UnreadableError
from ..outline import Extract, Outline, words
from ..text_line import SCRIPTS, Line
from . import html_pages

TITLES = ("title", "head")
NAMES_OF_TEXTS = (("title-group", "article-title"), ("title-info", "book-title"))
"""Pairs of an element and one in it that is a title."""
PARAGRAPHS = ("p", "para", "simpara")
VERBATIM = ("programlisting", "screen", "literallayout", "pre", "codeblock")
LINES = frozenset([
    *PARAGRAPHS, *VERBATIM, "br", "break", "cb", "entry", "item", "lb", "li", "listitem", "note",
    "pb", "row", "td", "tr",
])  # fmt: skip
"""Elements that begin a line within a paragraph."""
BROKEN_WORD = re.compile(r"""(?<!\s)\s*<\w+\s[^<>]*\bbreak=["']no["'][^<>]*/>\s*""")
"""End of a line or page within a word."""
RAISED = {"superscript": "sup", "subscript": "sub"}
"""Names of elements, or of the rendering of text, -> their names in HTML."""
FEEDS = ("rss", "feed", "RDF", "channel")
"""First elements of files whose texts may be HTML."""
MARKUP = re.compile(r"</?[a-z][a-z0-9]*(\s[^<>]*)?/?>", re.I)
ADDRESS = re.compile(r"\s*https?://\S+\s*")
UNSEEN = frozenset([("data", "plist"), ("binary", "FictionBook")])
"""Elements whose text is an embedded file, each with the root element of its format."""
LAYOUT = frozenset(["class", "style", "schemaLocation"])
"""Attributes that are never text."""
PHRASE = re.compile(r"[^\W\d_][.,;:!?'\")]*\s+[('\"]*[^\W\d_]|[\u0e00-\ud7ff]{2}")
"""Two words, or two characters of scripts without spaces."""
NAME = re.compile(r"(?=.*?[^\W\d_]{3})[@+\w.:/$-]{3,100}")
LONG_NAME = 20
"""Most characters of one text, such as a log, that are weighed against names in attributes."""
ENTITY = re.compile(r"<!\[CDATA\[(?:.*?\]\]>|.*)|&([A-Za-z_][\w.-]*);", re.S)
DECLARED = re.compile(r"<!ENTITY\s+([\w.:-]+)\s")
DTDS = re.compile(rb"""<!(?:DOCTYPE|ENTITY\s+%)[^\[>]*?["']([\w.-]+\.(?:dtd|ent))["']""")
"""References to files beside a file that may declare its entities."""
ENTITIES = re.compile(rb"""<!ENTITY\s+[\w.:-]+\s+(?:"[^"%]*"|'[^'%]*')\s*>""")
DOCTYPE = re.compile(rb"(<!DOCTYPE[^\[>]*)(?:\[(.*?)\]\s*)?>", re.S)
PROLOG = re.compile(r"\s*(?:<\?xml[^>]*>)?\s*(?:<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>)?", re.S)
MOST_ENDS = 100
"""Most end tags without a start tag in a fragment."""
PARSING = {"resolve_entities": False, "load_dtd": False, "no_network": True, "huge_tree": True}
"""Options of a parser that reads no other file and any depth."""
XML_ENTITIES = ("amp", "lt", "gt", "quot", "apos")


def read(data: bytes) -> Extract:
    r"""Read an XML file; recover what can be parsed of a fragment, a template or a broken file.

    Raises `UnreadableError` if that is nothing.

    >>> tea = read(b"<a><title>Tea</title><p>Boil <b>it</b></p><p>Pour</p></a>")
    >>> tea.title, tea.text, tea.parts[0].headings
    ('Tea', 'Tea\n\nBoil it\n\nPour', ('Tea',))
    """
    text = xml_text(data)
    if "break=" in text:
        text = BROKEN_WORD.sub("", text)
    try:
        outline = _outline(_with_known_entities(text))
    except UnreadableError:
        # Several first elements, or none, become one.
        fragment = _with_known_entities(PROLOG.sub("", text, count=1))
        outline = _outline("<_>" * MOST_ENDS + fragment, recover=True)
        if not outline.text:
            raise
    return Extract(outline.first_heading, outline.text, outline.parts)


def _outline(text: str, *, recover: bool = False) -> Outline:
    """Parse a file twice to its outline: an element's own text may follow elements in it."""
    outline = Outline()
    shape = _Shape()
    _parse(text, shape, recover=recover)
    _parse(text, _XmlText(outline, shape), recover=recover)
    return outline


def declare(data: bytes, dtd: bytes) -> bytes:
    """Add the entities of a DTD to a file's own declarations, which come first.

    >>> declare(b"<!DOCTYPE a SYSTEM 'a.dtd'><a>&b;</a>", b"<!ENTITY b 'Tea'>")
    b"<!DOCTYPE a SYSTEM 'a.dtd'[<!ENTITY b 'Tea'>]><a>&b;</a>"
    """
    entities = b"".join(ENTITIES.findall(dtd))
    return DOCTYPE.sub(lambda own: b"%b[%b%b]>" % (own[1], own[2] or b"", entities), data, count=1)


def xml_text(data: bytes) -> str:
    """Decode a file: the parser lacks some encodings, and refuses a broken byte."""
    return decode_text(data, label=declared_label(data) or "utf-8")


def root(data: bytes) -> str:
    """Tag of the first element; "" if there is none."""
    from lxml import etree  # an optional library

    with suppress(etree.XMLSyntaxError):
        for _, element in etree.iterparse(
            io.BytesIO(data), events=("start",), recover=True, **PARSING
        ):
            return str(element.tag)
    return ""


def _with_known_entities(text: str) -> str:
    """Replace entities that the file does not declare: HTML's by characters, others by their names.

    A document type that is not read may declare them.
    """
    declared = {*XML_ENTITIES, *DECLARED.findall(text)}

    def character(entity: re.Match[str]) -> str:
        name = entity[1]
        if name is None or name in declared:
            return entity[0]
        characters = html5.get(f"{name};", name)
        return "".join(f"&#{ord(each)};" for each in characters)

    return ENTITY.sub(character, text)


class _Shape:
    """Parser that notes how the elements and attributes of a file are used.

    Attributes
    ----------
    has_text : whether each element, in the order of their starts, is a paragraph.
    containers : names of elements that have others in them, but never text beside these.
    phrases : (element, attribute) of attributes that are texts.
    ids : identifiers.
    """

    def __init__(self) -> None:
        self.has_text = bytearray()
        self.containers = set[str]()
        self.mixed = {*SCRIPTS, *RAISED}
        self.phrases = set[tuple[str, str]]()
        self.ids = set[str]()
        self.balance = 0
        """Characters of names in attributes minus those of texts, each at most `LONG_NAME`."""
        self._open = list[tuple[str, int, set[str]]]()  # (name, position, names of elements in it)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = local(tag)
        self._open.append((name, len(self.has_text), set()))
        self.has_text.append(False)
        for key, value in attributes.items():
            attribute = local(key)
            if attribute.lower() == "id":
                self.ids.add(value)
            elif attribute not in LAYOUT and PHRASE.search(value):
                self.phrases.add((name, attribute))
            if NAME.fullmatch(value):
                self.balance += len(value)

    def data(self, text: str) -> None:
        if self._open and not text.isspace():
            name, position, _ = self._open[-1]
            self.has_text[position] = True
            self.mixed.add(name)
            self.balance -= min(len(text), LONG_NAME)

    def end(self, _: str) -> None:
        name, position, within = self._open.pop()
        if within and not self.has_text[position]:
            self.containers.add(name)
            is_title = name in TITLES and within <= {*PARAGRAPHS}
            self.has_text[position] = is_title or name in VERBATIM or name == "math"
        if self._open:
            self._open[-1][2].add(name)

    def close(self) -> None:
        self.containers -= self.mixed


class _XmlText:
    """Parser that makes the outline of an XML file, whose shape is known."""

    def __init__(self, outline: Outline, shape: _Shape) -> None:
        self._outline = outline
        self._shape = shape
        self._has_text = iter(shape.has_text)
        self._root = ""
        self._open = [("", "", False)]  # name, that of a script such as `sup`, and if it is unseen
        self._unseen = 0  # open elements that are not read
        self._verbatim = 0  # open elements whose lines are lines
        self._paragraph = 0
        """Depth of the paragraph that is open; 0 if none is."""
        self._is_title = False  # whether it is one
        self._separator = ""  # before its next line
        self._line = Line()
        self._is_apart = False  # whether the next word is another one

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        # What it is within a paragraph, or outside.
        name = local(tag)
        self._root = self._root or name.strip("_")
        if not self._paragraph:
            self._add_attributes(name, attributes)
        elif name in LINES:
            self._end_line()
        self._note_gap(name)

        # What it begins.
        around, *_ = self._open[-1]
        script = RAISED.get(attributes.get("rend", name), name)
        is_unseen = self._is_unseen(tag)
        self._open.append((name, script, is_unseen))
        self._unseen += is_unseen
        self._verbatim += name in VERBATIM
        if next(self._has_text) and not self._paragraph:
            self._paragraph = len(self._open)
            self._is_apart = False
            self._is_title = name in TITLES or (around, name) in NAMES_OF_TEXTS
            self._separator = "\n\n" if name in (*PARAGRAPHS, *VERBATIM) else "\n"
        if self._paragraph:
            self._line.start(script)

    def data(self, text: str) -> None:
        if not self._paragraph or self._unseen:
            return
        if self._is_apart and self._line.ends_in_word and text[0].isalnum():
            self._line.append(" ")
        self._line.append(text)
        self._is_apart = False

    def end(self, tag: str) -> None:
        name, script, is_unseen = self._open.pop()
        if self._paragraph:
            self._line.end(script)
        if len(self._open) + 1 == self._paragraph:
            if self._is_title:
                self._outline.heading(len(self._open) - 1, self._line.take())
                self._is_title = False
            else:
                self._end_line()
            self._paragraph = 0
        elif self._paragraph and name in LINES:
            self._end_line()

        # Leave it.
        self._unseen -= is_unseen
        self._verbatim -= name in VERBATIM
        self._outline.leave(len(self._open))
        self._note_gap(name)

    def close(self) -> None:
        """Close the elements that a broken file leaves open."""
        while len(self._open) > 1:
            self.end(self._open[-1][0])

    def _note_gap(self, name: str) -> None:
        """Separate the words of adjacent elements, and numbers of references from words."""
        around, *_ = self._open[-1]
        if around in self._shape.containers or name == "xref":
            self._is_apart = not self._verbatim

    def _add_attributes(self, name: str, attributes: Mapping[str, str]) -> None:
        """Add attributes that are texts; also names, once each, if they outweigh the texts."""
        shape = self._shape
        if self._root == "svg" or self._unseen:
            return
        for key, value in attributes.items():
            is_name = shape.balance > 0 and NAME.fullmatch(value) and value not in shape.ids
            if is_name:
                shape.ids.add(value)
            if is_name or (name, local(key)) in shape.phrases:
                self._outline.add(
                    html_pages.text_of(value) if MARKUP.search(value) else value, "\n"
                )

    def _end_line(self) -> None:
        """Add the line as a block, except within a title."""
        if self._is_title:
            self._line.append(" ")
            return
        text = self._line.take()
        is_feed = self._root in FEEDS
        if is_feed and MARKUP.search(text):
            text = html_pages.text_of(text)
        elif not self._verbatim:
            text = words(text)
        if not text.strip() or (is_feed and ADDRESS.fullmatch(text)):
            return
        self._outline.add(text, self._separator)
        self._separator = "\n"

    def _is_unseen(self, tag: str) -> bool:
        """Return whether an element is a program, layout, an embedded file or a formula's copy."""
        name = local(tag)
        if name in ("script", "style"):
            return self._root == "svg" or "xhtml}" in tag
        is_copy = name == "tex-math" and "math" in self._shape.containers
        return is_copy or (name, self._root) in UNSEEN


def events(data: bytes, target: Any) -> None:
    """Parse XML to events of a target, without expanding entities."""
    _parse(xml_text(data), target)


def _parse(text: str, target: Any = None, *, recover: bool = False) -> Any:
    """Parse a text to events of a target, or else to its first element; None if it is empty.

    Raises `UnreadableError` if it is broken.
    """
    from lxml import etree  # an optional library

    if not text.strip():
        return None
    parser = etree.XMLParser(target=target, encoding="utf-8", recover=recover, **PARSING)
    data = text.encode("utf-8", "replace")
    try:
        if recover:
            return etree.fromstring(data, parser)
        parser.feed(data)  # to any depth, but only to the first error
        return parser.close()
    except etree.XMLSyntaxError as error:
        raise UnreadableError(f"broken: {error.msg}") from error


def tree(data: bytes) -> Any:
    """First element of a file, with those in it; None if it is empty."""
    return _parse(xml_text(data), recover=True)


def local(tag: str) -> str:
    """Return a name without its namespace.

    >>> local("{urn:x}p")
    'p'
    """
    return tag.rpartition("}")[2]


class Element(NamedTuple):
    """Element of an XML file, with its own text on one line."""

    name: str
    attributes: Mapping[str, str]
    text: str


def elements(data: bytes) -> list[Element]:
    """Elements of a file in order, with names without a namespace."""
    found = list[Element]()
    root = tree(data)
    for element in root.iter("*") if root is not None else ():
        texts = [element.text, *(child.tail for child in element)]
        text = words("".join(filter(None, texts)))
        found.append(Element(local(element.tag), dict(element.attrib), text))
    return found


def attribute(attributes: Mapping[str, str], name: str) -> str:
    """Value of an attribute in any namespace; "" if missing.

    >>> attribute({"{urn:x}val": "1"}, "val")
    '1'
    """
    return next((value for key, value in attributes.items() if local(key) == name), "")


def join_texts(elements: Sequence[Element], *names: str) -> str:
    """Texts of the first of these elements that is present, joined by commas."""
    for name in names:
        texts = [element.text for element in elements if element.name == name and element.text]
        if texts:
            return ", ".join(texts)
    return ""


def facts(about: Sequence[Element]) -> dict[str, Any]:
    """Metadata from Dublin Core and similar fields."""
    date = join_texts(about, "created", "creation-date", "date")
    columns: dict[str, Any] = {
        "author": join_texts(about, "creator", "initial-creator"),
        "date": moment(date),
        "tags": join_texts(about, "keywords", "keyword", "subject"),
        "description": join_texts(about, "description"),
        "language": join_texts(about, "language"),
    }
    return {column: value for column, value in columns.items() if value}
