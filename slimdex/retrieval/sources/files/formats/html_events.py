"""Events of an HTML page, parsed as browsers do, and of the same elements in XML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

UNREAD = frozenset([
    "script", "style", "template", "svg", "iframe", "object", "select", "textarea", "video",
    "audio", "canvas", "datalist",
])  # fmt: skip
"""Elements whose content is no text of the page."""
DEEPEST = 512
"""Deepest nesting that is parsed, as in browsers: the time per element grows with depth."""
MOST_FORMATTING = 32
"""Largest number of open elements of formatting, which are repeated in each paragraph."""
FORMATTING = frozenset(
    ["b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"]
)
UNCOUNTED = frozenset([
    "a", "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link",
    "meta", "nobr", "option", "p", "param", "rp", "rt", "source", "tbody", "td", "tfoot", "th",
    "thead", "tr", "track", "wbr",
])  # fmt: skip
"""Elements that have no content, or are ended by the next one of their kind."""
TAG = re.compile(r"<(/?)([a-z][^\s<>/]*+)", re.I)
FRAMESET = re.compile(r"</?(?:frameset|frame|noframes)\b[^<>]*+>", re.I)
"""Tags around the text for browsers without frames, which others leave out."""
XHTML, HEAD = "/1999/xhtml", 4096
"""End of XHTML's namespace, and the number of characters in which a page has it."""
EMPTY = re.compile(r"<([a-z][a-z0-9]*+)((?:[^<>/]|/(?!>))*+)/>", re.I)
"""An element that ends in its first tag, as only XML has it."""


class Start(NamedTuple):
    """Start of an element."""

    tag: str
    attributes: Mapping[str, str]


Event = Start | str | None
"""Start of an element, text, or (None) the end of the innermost element."""


def page_events(text: str) -> list[Event]:
    """Events of a page.

    >>> page_events("<header><div>Shop</header><p hidden>A")[4:9]
    [Start(tag='header', attributes={}), Start(tag='div', attributes={}), 'Shop', None, None]
    """
    return _events(text, is_fragment=False)


def fragment_events(text: str) -> list[Event]:
    """Events of a part of a page, which may begin within a table.

    >>> fragment_events("<td>A")
    [Start(tag='td', attributes={}), 'A', None]
    """
    return _events(text, is_fragment=True)


def _events(text: str, *, is_fragment: bool) -> list[Event]:
    """Parse a text as browsers do; raises `MemoryError` if it has too many elements."""
    from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, SelectolaxError

    try:
        parser = LexborHTMLParser(
            _prepared(text),
            is_fragment=is_fragment,
            fragment_tag="template",
            options=LexborDocumentOptions.WO_EVENTS,
        )
    except SelectolaxError as error:
        raise MemoryError from error
    return _events_of(parser.root)


class XhtmlEvents:
    """Target of an XML parser, which records the events of XHTML."""

    def __init__(self) -> None:
        self.events = list[Event]()
        self._text, self._unread = list[str](), 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Begin an element; names lose their namespace, but for those of EPUB's attributes."""
        self._end_text()
        name = tag.rpartition("}")[2]
        self._unread += name in UNREAD
        if not self._unread:
            self.events.append(
                Start(name, {_local(key): value for key, value in attributes.items()})
            )

    def data(self, text: str) -> None:
        """Add a piece of text."""
        self._text.append(text)

    def end(self, tag: str) -> None:
        """End an element."""
        self._end_text()
        if not self._unread:
            self.events.append(None)
        self._unread -= tag.rpartition("}")[2] in UNREAD

    def close(self) -> None:
        """End the file."""

    def _end_text(self) -> None:
        if self._text and not self._unread:
            self.events.append("".join(self._text))
        self._text.clear()


def _local(attribute: str) -> str:
    """Name of an attribute as in HTML.

    >>> _local("{http://www.idpf.org/2007/ops}type"), _local("id")
    ('epub:type', 'id')
    """
    namespace, _, name = attribute.rpartition("}")
    return f"epub:{name}" if namespace.endswith("/ops") else name


def _prepared(text: str) -> str:
    """Source of a page as a parser can read it: with one frame, and not too deep."""
    text = FRAMESET.sub("", text.encode("utf-8", "replace").decode())
    if XHTML in text[:HEAD]:
        text = EMPTY.sub(_with_end, text)
    return _shallow(text) if text.count("<") > DEEPEST else text


def _with_end(found: re.Match[str]) -> str:
    """Give an empty element of XHTML the end tag that HTML requires."""
    name = found[1].lower()
    return found[0] if name in UNCOUNTED and name != "a" else f"<{name}{found[2]}></{name}>"


def _shallow(text: str) -> str:
    """Replace the starts of elements that are nested too deep by elements without content."""
    pieces, done = list[str](), 0
    above, counts = list[str](), Counter[str]()
    formatting = 0
    for found in TAG.finditer(text):
        name = found[2].lower()
        if name in UNCOUNTED:
            continue
        is_formatting = name in FORMATTING
        if found[1]:
            if is_formatting:
                formatting -= counts[name] > 0
                counts[name] -= counts[name] > 0
            while counts[name] and not is_formatting:
                counts[above[-1]] -= 1
                if above.pop() == name:
                    break
        elif (formatting >= MOST_FORMATTING) if is_formatting else (len(above) >= DEEPEST):
            pieces += [text[done : found.start()], "<wbr" if is_formatting else "<hr"]
            done = found.end()
        elif is_formatting:
            formatting += 1
            counts[name] += 1
        else:
            above.append(name)
            counts[name] += 1
    return "".join([*pieces, text[done:]])


def _events_of(first: LexborNode | None) -> list[Event]:
    """Events of a node and of those that follow it, without recursion."""
    events, above = list[Event](), list["LexborNode"]()
    plain = dict[str, Start]()  # elements without attributes are most
    node = first
    while node is not None:
        inner: LexborNode | None = None
        if node.is_text_node:
            events.append(node.text_content or "")
        elif node.is_element_node and (tag := node.tag or "") not in UNREAD:
            if attributes := node.attributes:
                start = Start(tag, {name: value or "" for name, value in attributes.items()})
            else:
                start = plain.setdefault(tag, Start(tag, {}))
            events.append(start)
            inner = node.first_child
            if inner is None:
                events.append(None)
        if inner is not None:
            above.append(node)
        else:
            inner = node.next
            while inner is None and above:
                events.append(None)
                inner = above.pop().next
        node = inner
    return events
