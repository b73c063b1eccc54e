"""Events of a page of HTML or XHTML, parsed as browsers do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

UNREAD = frozenset([
    "script", "style", "template", "svg", "iframe", "object", "select", "textarea", "video",
    "audio", "canvas", "datalist",
])  # fmt: skip
"""Elements whose content is no text of the page."""
REMOVED = re.compile(r"</?(?:frameset|frame|noframes|plaintext)\b[^<>]*+>", re.I)
"""Tags to remove: around the text for browsers without frames, and the start of `plaintext`."""
LEAST_WORDS = 3
"""Fewest words of a drawing's title that is read, unless it is marked as a picture."""
NOSCRIPT = re.compile("<noscript", re.I)
SHADOW = re.compile(r"<template(?=\s[^<>]*\bshadowroot)", re.I)
"""Start of the shadow root of an element, which is shown; other templates are for scripts."""
CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.S)
XHTML = "/1999/xhtml"
HEAD = 4096
"""End of XHTML's namespace, and the number of characters in which a page has it."""
VOID = "area|base|br|col|embed|hr|img|input|link|meta|source|wbr"
EMPTY = re.compile(rf"<(?!(?:{VOID})\b)([a-z][\w:.-]*+)((?:[^<>/]|/(?!>))*+)/>", re.I)
"""An element that ends in its first tag, as only XML has it, except those that HTML never ends."""


class Start(NamedTuple):
    """Start of an element."""

    tag: str
    attributes: Mapping[str, str]


Event = Start | str | None
"""Start of an element, text, or (None) the end of the innermost element."""


def page_events(text: str, *, is_fragment: bool = False) -> list[Event]:
    """Events of a page, or of a part of one, which may begin within a table.

    Raises `MemoryError` if it has too many elements.

    >>> page_events("<header><div>Shop</header><p hidden>A")[4:9]
    [Start(tag='header', attributes={}), Start(tag='div', attributes={}), 'Shop', None, None]
    >>> page_events("<td>A", is_fragment=True)
    [Start(tag='td', attributes={}), 'A', None]
    """
    # Of the extra `files`.
    from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, SelectolaxError

    text = REMOVED.sub("", text.encode("utf-8", "replace").decode())
    # The parser would begin the body with the content of a `noscript` in the head.
    text = NOSCRIPT.sub(r"<body>\g<0>", text)
    # A known element instead, since the parser hides the content of all templates.
    text = SHADOW.sub("<dir", text).replace("</template>", "</template></dir>")
    if XHTML in text[:HEAD]:
        text = CDATA.sub(lambda section: escape(section[1]), text)
        text = EMPTY.sub(r"<\1\2></\1>", text)
    try:
        parser = LexborHTMLParser(
            text,
            is_fragment=is_fragment,
            fragment_tag="template",
            options=LexborDocumentOptions.WO_EVENTS,
        )
    except SelectolaxError as error:
        raise MemoryError from error
    return _events_of(parser.root)


def _events_of(first: LexborNode | None) -> list[Event]:
    """Events of a node and of those that follow it, without recursion."""
    events = list[Event]()
    above = list["LexborNode"]()
    plain = dict[str, Start]()  # elements without attributes are most
    said = ""  # the last description
    node = first
    while node is not None:
        # The node's event.
        following: LexborNode | None = None
        if node.is_text_node:
            events.append(node.text_content or "")
        elif node.is_element_node:
            tag = node.tag or ""
            if attributes := node.attributes:
                start = Start(tag, {name: value or "" for name, value in attributes.items()})
            else:
                start = plain.setdefault(tag, Start(tag, {}))
            is_copy = start.attributes.get("aria-hidden") == "true" and _is_copy(node)
            description = "" if is_copy else _description(node, start)
            if description and description != said:  # twice if it is loaded by a script
                events.append(f" {description} ")
                said = description
            if tag not in UNREAD and not is_copy:
                events.append(start)
                following = node.first_child
                if following is None:
                    events.append(None)

        # The next node: inside this one, or after it or one around it.
        if following is not None:
            above.append(node)
        else:
            following = node.next
            while following is None and above:
                events.append(None)
                following = above.pop().next
        node = following
    return events


def _description(node: LexborNode, element: Start) -> str:
    """Description of a picture, or source of a formula in TeX; "" for other elements."""
    tag, attributes = element
    if attributes.get("type", "").startswith("math/tex"):
        is_shown = "MathJax" in str(getattr(node.prev, "attributes", ""))
        return "" if is_shown else node.text()
    is_picture = attributes.get("role") == "img"
    if tag != "svg" and not is_picture:
        return attributes.get("alt", "")

    # The title of a drawing without a role may be the name of an icon.
    title = node.css_first("title")
    name = attributes.get("aria-label") or (title.text() if title else "")
    return name if is_picture or len(name.split()) >= LEAST_WORDS else ""


def _is_copy(node: LexborNode) -> bool:
    """Return whether an element shows the formula that is beside it, as KaTeX and MathJax do."""
    firsts = [each.first_child for each in (node.prev, node.next) if each]
    return any(first.tag == "math" for first in firsts if first)
