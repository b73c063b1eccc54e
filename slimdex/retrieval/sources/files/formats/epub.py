"""EPUB: chapters of a book, in order."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from ..limits import LARGEST_PACKED_TEXT, UnreadableError
from ..outline import Extract, Outline
from ..packed import Archive
from . import html_pages
from .html_events import Event, Start
from .html_frame import ContentChoice
from .xml_files import elements, facts, xhtml_events

CONTAINER = "META-INF/container.xml"
PACKAGE = "application/oebps-package+xml"
"""Media type of a book's package; a container may list others before it."""
CONTENTS = frozenset(["epub:type", "role"])
"""Attributes by which a `nav` in a book is a table of contents."""


def read(data: bytes) -> Extract:
    """Read a book; a chapter's anchors are those of its page."""
    archive = Archive(data)
    roots = [e.attributes for e in elements(archive.read(CONTAINER)) if e.name == "rootfile"]
    roots.sort(key=lambda root: root.get("media-type", PACKAGE) != PACKAGE)
    package = roots[0].get("full-path", "") if roots else ""
    if package not in archive:
        raise UnreadableError("not an EPUB file")
    if "META-INF/rights.xml" in archive:
        raise UnreadableError("encrypted")
    about = elements(archive.read(package))
    pages = {
        e.attributes.get("id"): e.attributes.get("href", "") for e in about if e.name == "item"
    }
    order = [e.attributes.get("idref") for e in about if e.name == "itemref"]
    outline = Outline(LARGEST_PACKED_TEXT)
    for item in (pages[id] for id in order if id in pages):
        path = posixpath.join(posixpath.dirname(package), item.partition("#")[0])
        if page := archive.read(path):
            outline.part("")
            events = xhtml_events(page)
            html_pages.feed(outline, events, _without_contents(events))
            outline.leave(0)
    title = (
        next((e.text for e in about if e.name == "title" and e.text), "") or outline.first_heading
    )
    return Extract(title, outline.text, outline.parts, facts(about))


def _without_contents(events: Sequence[Event]) -> ContentChoice:
    """Leave out tables of contents and lists of pages."""
    starts = ((number, event) for number, event in enumerate(events) if isinstance(event, Start))
    contents = (
        number
        for number, event in starts
        if event.tag == "nav" and not CONTENTS.isdisjoint(event.attributes)
    )
    return ContentChoice(frozenset(contents))
