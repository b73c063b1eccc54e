"""Events of an HTML page, parsed as browsers do, and of the same elements in XML."""

from __future__ import annotations

import re
from collections import defaultdict
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
VERBATIM = frozenset(["iframe", "noembed", "script", "style", "textarea", "title", "xmp"])
"""Elements in whose content only their own end tag is markup."""
VERBATIM_TAG = re.compile(rf"<(/?)({'|'.join(sorted(VERBATIM))})\b", re.I)
STRUCTURE = frozenset([
    "address", "article", "aside", "blockquote", "dd", "div", "dl", "dt", "fieldset", "figure",
    "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "li", "main", "nav", "ol", "p",
    "pre", "section", "table", "td", "th", "tr", "ul",
])  # fmt: skip
"""Elements of text. The first one that begins ends an unread element without an end tag."""
MOST_ATTRIBUTES = 256
"""Most attributes of an element; the parser's time grows with the square of their number."""
ATTRIBUTE = r"""(?>[\s/]*[^\s/>][^\s/>=]*(?>\s*=\s*(?>"[^"]*"|'[^']*'|[^\s"'>][^\s>]*)?)?)"""
TAG = re.compile(
    r"<(?:!--(?:-?>|(?:[^-]|-(?!-!?>))*+--!?>)|(/?)([a-zA-Z][^\s<>/]*+)"
    rf"{ATTRIBUTE}{{0,{MOST_ATTRIBUTES}}}+({ATTRIBUTE}*+)\s*+(/?))"
)
"""A comment or a tag. Groups of a tag: `/` of an end tag, name, surplus attributes, and `/` of a
self-closing tag, as in SVG."""
REMOVED = re.compile(r"</?(?:frameset|frame|noframes|plaintext)\b[^<>]*+>", re.I)
"""Tags to remove: around the text for browsers without frames, and the start of `plaintext`."""
NOSCRIPT = re.compile("<noscript", re.I)
XHTML = "/1999/xhtml"
HEAD = 4096
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
    # Of the extra `files`.
    from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, SelectolaxError

    try:
        parser = LexborHTMLParser(
            _prepare(text),
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
        self._text = list[str]()
        self._unread = 0  # open elements whose content is not read

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Begin an element; names lose their namespace, except EPUB's attributes."""
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
        """Record the pieces of text so far as one event."""
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


def _prepare(text: str) -> str:
    """Prepare a page for the parser: without frames, with bounded depth, and with end tags."""
    text = REMOVED.sub("", text.encode("utf-8", "replace").decode())
    # The parser would begin the body with the content of a `noscript` in the head.
    text = NOSCRIPT.sub(r"<body>\g<0>", text)
    if XHTML in text[:HEAD]:
        text = EMPTY.sub(_with_end, text)
    return _Tags(_with_ended_comment(text)).mend()


def _with_ended_comment(text: str) -> str:
    """Close comments without an end at once, since they would hide the rest of the page."""
    last_end = text.rfind("-->") + 1
    return text[:last_end] + text[last_end:].replace("<!--", "<!---->")


def _with_end(tag: re.Match[str]) -> str:
    """Give an empty element of XHTML the end tag that HTML requires."""
    name = tag[1].lower()
    return tag[0] if name in UNCOUNTED and name != "a" else f"<{name}{tag[2]}></{name}>"


class _Unread:
    """An open unread element; `depth` is the number of elements around it.

    `end` is where its first element of text begins, and the end tags to insert there.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.end: tuple[int, str] | None = None


class _Tags:
    """Bounds the depth of a page, and inserts missing end tags.

    Elements that are nested too deep lose their content. An unread element without an end tag
    would hide the rest of the page. It is closed before the first element of text in it, or with
    the element around it.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits = list[tuple[int, int, str]]()  # (start, end, new text)
        self._above = list[str]()  # open elements, except formatting and uncounted ones
        self._counts = defaultdict[str, int](int)  # open elements by name, including formatting
        self._unread = list[_Unread]()
        self._formatting = 0  # number of open elements of formatting
        self._next = 0  # offset at which reading continues
        self._paragraph = -1  # depth of the last open one
        self._last_script = text.lower().rfind("</script")

    def mend(self) -> str:
        """Return the changed page."""
        while self._read_tags():
            pass
        self._end_unread(0, len(self._text))
        pieces = list[str]()
        done = 0
        for start, end, new in sorted(self._edits):
            pieces += [self._text[done:start], new]
            done = end
        return "".join([*pieces, self._text[done:]])

    def _read_tags(self) -> bool:
        """Read tags up to and including a verbatim element; return False at the end of the page."""
        for tag in TAG.finditer(self._text, self._next):
            end, name, surplus, self_end = tag.groups("")
            name = name.lower()
            if surplus:
                self._edits.append((*tag.span(3), ""))

            # Scripts and similar elements contain no tags.
            if name in VERBATIM and not end and not self._counts["svg"]:
                self._next = self._skip_verbatim(name, tag.end())
                return True

            # All other tags open or close an element.
            if name in UNCOUNTED:
                if self._unread and name in STRUCTURE and not end:
                    self._start_text(tag.start())
                if name == "p":
                    self._paragraph = -1 if end else len(self._above)
            elif end:
                self._end(name, tag.start())
            elif name and not (self_end and self._counts["svg"]):  # outside SVG, "/>" ends nothing
                self._start(name, tag)
        return False

    def _start(self, name: str, tag: re.Match[str]) -> None:
        """Open an element."""
        if self._unread and name in STRUCTURE:
            self._start_text(tag.start())

        # Replace elements that are nested too deeply by empty ones.
        if name in FORMATTING:
            if self._formatting >= MOST_FORMATTING:
                self._edits.append((tag.start(), tag.end(2), "<wbr"))
                return
            self._formatting += 1
        elif len(self._above) >= DEEPEST:
            self._edits.append((tag.start(), tag.end(2), "<hr"))
            return
        else:
            if name in UNREAD:
                self._unread.append(_Unread(len(self._above)))
            self._above.append(name)
        self._counts[name] += 1

    def _end(self, name: str, place: int) -> None:
        """Close an element, whose end tag is at this offset, and all open elements inside it."""
        if not self._counts[name]:  # it was not opened
            return
        if name in FORMATTING:
            self._formatting -= 1
            self._counts[name] -= 1
            return

        # Find the innermost open element of this name.
        depth = len(self._above) - 1
        while self._above[depth] != name:
            depth -= 1
        self._end_unread(depth + 1, place)
        if self._unread and self._unread[-1].depth == depth:
            self._unread.pop()
        if name == "noscript":  # a parser ignores its end while a block in it is open
            paragraph = "</p>" if self._paragraph > depth else ""
            self._edits.append((place, place, paragraph + self._ends(depth + 1)))
        for inner in self._above[depth:]:
            self._counts[inner] -= 1
        del self._above[depth:]

    def _start_text(self, place: int) -> None:
        """Remember where to close unread elements that have no end tag: where text begins."""
        for unread in reversed(self._unread):
            if unread.end is not None:
                break
            unread.end = (place, self._ends(unread.depth))

    def _end_unread(self, depth: int, place: int) -> None:
        """Close the unread elements at and below a depth that have no end tag before a place."""
        while self._unread and self._unread[-1].depth >= depth:
            unread = self._unread.pop()
            end, tags = unread.end or (place, self._ends(unread.depth))
            self._edits.append((end, end, tags))

    def _ends(self, depth: int) -> str:
        """Return end tags of the open elements from a depth on."""
        return "".join(f"</{name}>" for name in reversed(self._above[depth:]))

    def _skip_verbatim(self, name: str, begin: int) -> int:
        """Return the end of a verbatim element's content; the next tag if the end tag is missing.

        A script may contain tags, so one without an end tag is closed with the element around it.
        """
        tag_after = self._verbatim_end(name, begin)
        end = tag_after.start() if tag_after else len(self._text)
        if tag_after and tag_after[1]:  # an end tag
            return end

        # Without an end tag, a script ends with an element around it, and others end at any tag.
        for tag in TAG.finditer(self._text, begin, end):
            inner = (tag[2] or "").lower()
            if inner and (name != "script" or (tag[1] and self._counts[inner])):
                end = tag.start()
                break
        self._edits.append((end, end, f"</{name}>"))
        return end

    def _verbatim_end(self, name: str, begin: int) -> re.Match[str] | None:
        """Find the end tag of an element, or the next start tag of the same name."""
        if name == "script" and begin > self._last_script:  # no end tag is left
            return None
        for tag in VERBATIM_TAG.finditer(self._text, begin):
            may_start = name != "script"  # the text of a script may contain its start tag
            if tag[2].lower() == name and (tag[1] or may_start):
                return tag
        return None


def _events_of(first: LexborNode | None) -> list[Event]:
    """Events of a node and of those that follow it, without recursion."""
    events = list[Event]()
    above = list["LexborNode"]()
    plain = dict[str, Start]()  # elements without attributes are most
    node = first
    while node is not None:
        # The node's event.
        following: LexborNode | None = None
        if node.is_text_node:
            events.append(node.text_content or "")
        elif node.is_element_node and (tag := node.tag or "") not in UNREAD:
            if attributes := node.attributes:
                start = Start(tag, {name: value or "" for name, value in attributes.items()})
            else:
                start = plain.setdefault(tag, Start(tag, {}))
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
