"""EPUB: chapters of a book, in order."""

from __future__ import annotations

import posixpath

from ..limits import LARGEST_PACKED_TEXT, UnreadableError
from ..outline import Extract, Outline
from ..packed import Archive
from . import html_pages
from .xml_files import elements, facts

CONTAINER = "META-INF/container.xml"
PACKAGE = "application/oebps-package+xml"
"""Media type of a book's package; a container may list others before it."""


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
            html_pages.feed(outline, html_pages.page_text(page))
            outline.leave(0)
    title = (
        next((e.text for e in about if e.name == "title" and e.text), "") or outline.first_heading
    )
    return Extract(title, outline.text, outline.parts, facts(about))
