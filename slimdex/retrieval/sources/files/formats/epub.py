"""EPUB: chapters of a book, in order."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from ..limits import LARGEST_PACKED_TEXT, UnreadableError
from ..outline import Extract, Outline
from ..packed import Archive
from . import html_pages
from .html_events import Event, Start, page_events
from .html_frame import ContentChoice
from .xml_files import elements, facts

CONTAINER = "META-INF/container.xml"
PACKAGE = "application/oebps-package+xml"
"""Media type of a book's package; a container may list others before it."""
CONTENTS = frozenset(["epub:type", "role"])
"""Attributes by which a `nav` in a book is a table of contents."""


def read(data: bytes) -> Extract:
    """Read a book; a chapter's anchors are those of its page."""
    # The container names the package, and that lists the pages and their order.
    archive = Archive(data)
    roots = [e.attributes for e in elements(archive.read(CONTAINER)) if e.name == "rootfile"]
    roots.sort(key=lambda root: root.get("media-type", PACKAGE) != PACKAGE)  # book packages first
    package = roots[0].get("full-path", "") if roots else ""
    if package not in archive:
        raise UnreadableError("not an EPUB file")
    if "META-INF/rights.xml" in archive:
        raise UnreadableError("encrypted")
    about = elements(archive.read(package))
    pages = dict[str | None, str]()
    order = list[str | None]()
    titles = list[str]()
    for element in about:
        attributes = element.attributes
        if element.name == "item":
            pages[attributes.get("id")] = attributes.get("href", "")
        elif element.name == "itemref":
            order.append(attributes.get("idref"))
        elif element.name == "title" and element.text:
            titles.append(element.text)

    # Read the pages in order, each as a part.
    outline = Outline(LARGEST_PACKED_TEXT)
    folder = posixpath.dirname(package)
    for id in order:
        if id not in pages:
            continue
        page = archive.read(posixpath.join(folder, pages[id].partition("#")[0]))
        if page:
            outline.part("")
            events = page_events(html_pages.page_text(page))
            html_pages.feed(outline, events, _without_contents(events))
            outline.leave(0)
    title = titles[0] if titles else outline.first_heading
    return Extract(title, outline.text, outline.parts, facts(about))


def _without_contents(events: Sequence[Event]) -> ContentChoice:
    """Leave out tables of contents and lists of pages."""
    contents = set()
    for number, event in enumerate(events):
        if not isinstance(event, Start) or event.tag != "nav":
            continue
        if not CONTENTS.isdisjoint(event.attributes):
            contents.add(number)
    return ContentChoice(frozenset(contents))
