"""EPUB: chapters of a book, in order."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from urllib.parse import unquote

from ..archives import Archive, Fields, events, local
from ..limits import LARGEST_PACKED_TEXT, UnreadableError
from ..outline import Extract, Outline
from . import html_pages
from .office import facts

CONTAINER = "META-INF/container.xml"


def read(data: bytes) -> Extract:
    """Read a book; a chapter's anchors are those of its page."""
    archive = Archive(data)
    package = _Package(archive.read(CONTAINER)).root
    if package not in archive:
        raise UnreadableError("not an EPUB file")
    if "META-INF/rights.xml" in archive:
        raise UnreadableError("encrypted")
    described = archive.read(package)
    book = _Package(described)
    outline = Outline(LARGEST_PACKED_TEXT)
    for item in book.chapters:
        path = posixpath.join(posixpath.dirname(package), unquote(item.partition("#")[0]))
        if page := archive.read(posixpath.normpath(path)):
            outline.part("")
            html_pages.feed(html_pages.Page(outline), page, None)
            outline.leave(0)
    about = Fields(described)
    title = "".join(about.found.get("title", [])[:1]) or outline.first_heading
    return Extract(title, outline.text, outline.parts, facts(about))


class _Package:
    """Parser of the location of a book's description, and the order of its pages."""

    def __init__(self, data: bytes) -> None:
        self.root = ""
        self._items, self._order = dict[str, str](), list[str]()
        events(data, self)
        self.chapters = [self._items[id] for id in self._order if id in self._items]

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        name = local(tag)
        if name == "rootfile":
            self.root = self.root or attributes.get("full-path", "")
        elif name == "item":
            self._items[attributes.get("id", "")] = attributes.get("href", "")
        elif name == "itemref":
            self._order.append(attributes.get("idref", ""))

    def close(self) -> None:
        """Do nothing."""
