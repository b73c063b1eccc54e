"""PDF: text of each page, by PDFium, with headings from the table of contents.

Pages of pictures alone, such as scans, are rendered and given to Tesseract, if installed.
"""

from __future__ import annotations

import re
from math import sqrt
from typing import Any

from slimdex.indexes.execution.progress import progress

from ..allowance import Allowance
from ..front_matter import moment
from ..limits import LARGEST_PACKED_TEXT, PDF_MEMORY, UnreadableError
from ..outline import Extract, Outline, words
from . import tesseract

BROKEN_WORD = re.compile("[\ufffe\u0002]\r?\n?")
"""Hyphenation at the end of a line."""
MOST_ENTRIES = 10_000
"""Largest number of entries of a table of contents to read."""
DOTS = 300
"""Dots per inch of a page rendered for Tesseract, which is trained on that."""
MOST_DOTS = 50_000_000
"""Most dots of a rendered page; larger pages are rendered coarser."""
REASONS = {4: "encrypted", 5: "encrypted"}
"""PDFium's error codes -> reason."""


def read(data: bytes) -> Extract:
    """Read a document; pages and the sections found on them are parts.

    Scanned pages take their time; each is reported by `progress`. Raises `UnreadableError` if the
    document requires a password or is broken.
    """
    import pypdfium2

    allowance = Allowance(PDF_MEMORY)
    try:
        with allowance:
            document = pypdfium2.PdfDocument(data)
            sections = _sections(document)
    except pypdfium2.PdfiumError as error:
        reason = REASONS.get(getattr(error, "err_code", None) or 0)
        if reason or "assword" in str(error):
            raise UnreadableError("encrypted") from error
        raise UnreadableError("broken PDF") from error
    outline, unread = Outline(LARGEST_PACKED_TEXT), 0
    for index in range(len(document)):
        with allowance:
            page = document[index]
            text = _text(page)
        if not text.strip() and _has_picture(page):
            try:
                text = _recognised(page)
            except UnreadableError:
                unread += 1
            progress("recognising pages", index + 1, len(document))
        page.close()
        _add_page(outline, index + 1, text, sections.get(index, []))
    about = document.get_metadata_dict()
    facts: dict[str, Any] = {
        "author": words(about.get("Author")),
        "tags": words(about.get("Keywords")),
        "description": words(about.get("Subject")),
        "date": moment(about.get("CreationDate") or ""),
        "pages": len(document),
    }
    facts = {column: value for column, value in facts.items() if value}
    return Extract(words(about.get("Title")), outline.text, outline.parts, facts, unread)


def _sections(document: Any) -> dict[int, list[tuple[int, str]]]:
    """Sections by page: page -> (level, title)."""
    found: dict[int, list[tuple[int, str]]] = {}
    for number, bookmark in enumerate(document.get_toc(max_depth=8)):
        if number == MOST_ENTRIES:
            break
        target = bookmark.get_dest()
        index = target.get_index() if target is not None else None
        if index is not None and (title := words(bookmark.get_title())):
            found.setdefault(index, []).append((bookmark.level + 1, title))
    return found


def _text(page: Any) -> str:
    text_page = page.get_textpage()
    try:
        text = BROKEN_WORD.sub("", text_page.get_text_bounded())
    finally:
        text_page.close()
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _has_picture(page: Any) -> bool:
    import pypdfium2.raw

    pictures = page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE])
    return next(iter(pictures), None) is not None


def _recognised(page: Any) -> str:
    """Text of a page that is a picture; raises `UnreadableError` if it can't be recognised."""
    tesseract.require()
    width, height = page.get_size()
    scale = min(DOTS / 72, sqrt(MOST_DOTS / max(width * height, 1)))
    bitmap = page.render(scale=scale, grayscale=True)
    head = b"P5 %d %d 255\n" % (bitmap.width, bitmap.height)  # a portable graymap
    rows = bitmap.to_numpy().tobytes()
    bitmap.close()
    return "\n\n".join(tesseract.recognised(head + rows, "--dpi", str(DOTS)))


def _add_page(outline: Outline, number: int, text: str, sections: list[tuple[int, str]]) -> None:
    """Add a page, split at its section titles; sections not found begin with the page."""
    anchor, done = f"page={number}", 0
    outline.part(anchor, number)
    for level, title in sections:
        found = re.compile(r"\s+".join(map(re.escape, title.split())), re.I).search(text, done)
        if found is not None:
            outline.add(text[done : found.start()], "\n")
            done = found.start()
        outline.heading(level, title, anchor, visible=False)
    outline.add(text[done:], "\n\n" if done == 0 else "\n")
