"""XML: feeds, DocBook, SVG, property lists and others, and the parser of office files and books.

Texts are below their titles. An element with text of its own is a paragraph, and elements in it are
a part of that paragraph.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html.entities import html5
from typing import Any, NamedTuple

from ..decoding import declared_label, decode_text
from ..front_matter import moment
from ..limits import UnreadableError
from ..outline import Extract, Outline, words
from . import html_pages

TITLES = ("title", "head")
PARAGRAPHS = ("p", "para", "simpara")
VERBATIM = ("programlisting", "screen", "literallayout", "pre", "codeblock")
LINES = frozenset([*PARAGRAPHS, "br", "entry", "item", "lb", "li", "listitem", "row", "td", "tr"])
"""Elements that begin a line within a paragraph."""
LINE = "\0"
"""Marks the beginning of such a line; XML can't contain it."""
FEEDS = ("rss", "feed", "RDF", "channel")
"""First elements of files whose texts may be HTML."""
MARKUP = re.compile(r"</?[a-z][a-z0-9]*(\s[^<>]*)?/?>", re.I)
ADDRESS = re.compile(r"\s*https?://\S+\s*")
ENTITY = re.compile(rb"&([A-Za-z][A-Za-z0-9]*);")
DECLARED = re.compile(rb"<!ENTITY\s+([\w.:-]+)\s")
PARSING = {"resolve_entities": False, "load_dtd": False, "no_network": True, "huge_tree": True}
"""Options of a parser that reads no other file and any depth."""
XML_ENTITIES = (b"amp", b"lt", b"gt", b"quot", b"apos")


def read(data: bytes) -> Extract:
    r"""Read an XML file; raises `UnreadableError` if it is broken.

    >>> tea = read(b"<a><title>Tea</title><p>Boil <b>it</b></p><p>Pour</p></a>")
    >>> tea.title, tea.text, tea.parts[0].headings
    ('Tea', 'Tea\n\nBoil it\n\nPour', ('Tea',))
    """
    # Read the file twice: only at its end is it known whether an element has text of its own.
    outline = Outline()
    mixed = _MixedContentParser()
    data = _with_known_entities(data)
    events(data, mixed)
    events(data, _XmlText(outline, mixed.has_text))
    return Extract(outline.first_heading, outline.text, outline.parts)


def root(data: bytes) -> str:
    """Tag of the first element; "" for an empty file."""
    from lxml import etree  # an optional library

    if not data.strip():
        return ""
    try:
        for _, element in etree.iterparse(io.BytesIO(data), events=("start",), **PARSING):
            return str(element.tag)
    except etree.XMLSyntaxError as error:
        raise UnreadableError(f"broken: {error.msg}") from error
    return ""


def _with_known_entities(data: bytes) -> bytes:
    """Replace HTML's entities, which a document type that is not read may declare."""
    declared = {*XML_ENTITIES, *DECLARED.findall(data)}

    def character(entity: re.Match[bytes]) -> bytes:
        """Replace an entity by numeric references; a declared or unknown one stays unchanged."""
        characters = html5.get(f"{entity[1].decode()};")
        if characters is None or entity[1] in declared:
            return entity[0]
        return "".join(f"&#{ord(each)};" for each in characters).encode()

    return ENTITY.sub(character, data)


class _MixedContentParser:
    """Parser that notes, in the order of their starts, which elements have text of their own."""

    def __init__(self) -> None:
        self.has_text = bytearray()
        self._open = list[int]()  # positions of open elements in `has_text`

    def start(self, _: str, __: Mapping[str, str]) -> None:
        self._open.append(len(self.has_text))
        self.has_text.append(False)

    def data(self, text: str) -> None:
        if self._open and not text.isspace():
            self.has_text[self._open[-1]] = True

    def end(self, _: str) -> None:
        self._open.pop()

    def close(self) -> None:
        pass


class _XmlText:
    """Handler of the events of an XML file; `mixed` says which elements have text of their own."""

    def __init__(self, outline: Outline, mixed: Sequence[int]) -> None:
        self._outline = outline
        self._mixed = iter(mixed)
        self._root = ""
        self._depth = 0
        self._unseen = 0  # open elements that are not read
        self._paragraph = 0
        """Depth of the paragraph that is open; 0 if none is."""
        self._line = list[str]()
        self._is_key = False  # whether the last paragraph was a key of a property list

    def start(self, tag: str, _: Mapping[str, str]) -> None:
        name = local(tag)
        self._root = self._root or name
        self._depth += 1
        self._unseen += self._is_unseen(tag)
        has_text = next(self._mixed)
        if has_text and not self._paragraph:
            self._paragraph = self._depth
        elif self._paragraph and name in LINES:
            self._line.append(LINE)

    def data(self, text: str) -> None:
        if self._paragraph and not self._unseen:
            self._line.append(text)

    def end(self, tag: str) -> None:
        if self._paragraph == self._depth:
            text = "".join(self._line)
            self._line.clear()
            self._paragraph = 0
            if not self._unseen:
                self._end_paragraph(local(tag), text)
        self._unseen -= self._is_unseen(tag)
        self._outline.leave(self._depth)
        self._depth -= 1

    def close(self) -> None:
        pass

    def _end_paragraph(self, name: str, text: str) -> None:
        """Add the text of an element, in which `LINE` marks the beginnings of lines."""
        is_feed = self._root in FEEDS
        if is_feed and MARKUP.search(text):
            text = html_pages.text_of(text.replace(LINE, " "))
        elif name in VERBATIM:
            text = text.replace(LINE, "\n")
        else:
            text = "\n".join(filter(None, map(words, text.split(LINE))))
        if is_feed and ADDRESS.fullmatch(text):
            return

        # Add a heading, a paragraph, or a key with its value.
        if name in TITLES:
            self._outline.heading(self._depth - 1, text)
            return
        is_key = self._root == "plist" and name == "key"
        separator = "\n\n" if name in (*PARAGRAPHS, *VERBATIM) else "\n"
        is_value = self._is_key and not is_key
        self._outline.add(f"{text}:" if is_key else text, " " if is_value else separator)
        self._is_key = is_key

    def _is_unseen(self, tag: str) -> bool:
        """Return whether an element is a program, layout, or a file as text."""
        name = local(tag)
        if name in ("script", "style"):
            return self._root == "svg" or "xhtml}" in tag
        return (name, self._root) in (("data", "plist"), ("binary", "FictionBook"))


def events(data: bytes, target: Any) -> None:
    """Parse XML to events of a target, without expanding entities."""
    from lxml import etree  # an optional library

    # Decode it here: the parser lacks some encodings, and refuses a broken byte.
    text = decode_text(data, label=declared_label(data) or "utf-8").encode("utf-8", "replace")
    if not text.strip():
        return
    parser = etree.XMLParser(target=target, encoding="utf-8", **PARSING)
    try:
        parser.feed(text)
        parser.close()
    except etree.XMLSyntaxError as error:
        raise UnreadableError(f"broken: {error.msg}") from error


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
    """Elements of a file by their ends, with names without a namespace."""
    elements = list[Element]()
    open_ = list[tuple[str, Mapping[str, str], list[str]]]()  # (name, attributes, texts)

    class Target:
        """Handler of a parser's events."""

        def start(self, tag: str, attributes: Mapping[str, str]) -> None:
            open_.append((local(tag), dict(attributes), []))

        def data(self, text: str) -> None:
            if open_:
                open_[-1][2].append(text)

        def end(self, _: str) -> None:
            name, attributes, texts = open_.pop()
            elements.append(Element(name, attributes, " ".join("".join(texts).split())))

        def close(self) -> None:
            pass

    events(data, Target())
    return elements


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
