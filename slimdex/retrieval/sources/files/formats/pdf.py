"""PDF: text of each page, by PDFium, with headings from the table of contents.

After a page's text come the values of its form fields and its remarks, which PDFium keeps apart.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ..front_matter import moment
from ..limits import LARGEST_PACKED_TEXT, MEMORY, UnreadableError, size
from ..outline import Extract, Outline, words

PDF_MEMORY = 512 << 20
"""Address space that reading a PDF may take besides the file, in bytes: a few hundred bytes can
describe any number of objects."""
BROKEN_WORD = re.compile("[\ufffe\u0002]\r?\n?")
"""Hyphenation at the end of a line."""
MOST_ENTRIES = 10_000
"""Largest number of entries of a table of contents, or of fields and remarks of a page, to read."""
LONGEST_SOUGHT = 200
"""Characters of a title that are searched on its page."""
LOCKED = (4, 5)
"""PDFium's error codes for a wrong password, and for a protection that it does not know."""


def read(data: bytes) -> Extract:
    """Read a document; pages and the sections found on them are parts.

    Raises `UnreadableError` if the document requires a password or is broken.
    """
    with pdf_memory():
        return _read(data)


def _read(data: bytes) -> Extract:
    import pypdfium2  # an optional library

    try:
        document = pypdfium2.PdfDocument(data)
        document.init_forms()
        sections = _sections(document)
    except pypdfium2.PdfiumError as error:
        reason = "encrypted" if error.err_code in LOCKED else "broken PDF"
        raise UnreadableError(reason) from error

    # Read the pages, below the headings of the document's outline.
    outline = Outline(LARGEST_PACKED_TEXT)
    scanned = 0
    for index in range(len(document)):
        page = document[index]
        text = _text(page)
        if not text.strip() and _has_picture(page):
            scanned += 1
        text = "\n".join(filter(None, [text.rstrip(), *_remarks(document, page)]))
        _add_page(outline, index + 1, text, sections.get(index, []))
        page.close()

    # Read the metadata.
    about = document.get_metadata_dict()
    facts: dict[str, Any] = {
        "author": words(about.get("Author")),
        "tags": words(about.get("Keywords")),
        "description": words(about.get("Subject")),
        "date": moment(about.get("CreationDate") or ""),
        "pages": len(document),
    }
    facts = {column: value for column, value in facts.items() if value}
    return Extract(words(about.get("Title")), outline.text, outline.parts, facts, scanned)


def _sections(document: Any) -> dict[int, list[tuple[int, str]]]:
    """Sections by page: page -> (level, title)."""
    sections: dict[int, list[tuple[int, str]]] = {}
    for number, bookmark in enumerate(document.get_toc(max_depth=8)):
        if number == MOST_ENTRIES:
            break
        target = bookmark.get_dest()
        index = target.get_index() if target is not None else None
        if index is None:
            continue
        title = words(bookmark.get_title())
        if title:
            sections.setdefault(index, []).append((bookmark.level + 1, title))
    return sections


def _text(page: Any) -> str:
    """Text of a page, with words that were divided at the end of a line joined again."""
    text_page = page.get_textpage()
    try:
        text = BROKEN_WORD.sub("", text_page.get_text_bounded())
    finally:
        text_page.close()
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _remarks(document: Any, page: Any) -> Iterator[str]:
    """Values of a page's form fields, and remarks on it."""
    from pypdfium2 import raw  # an optional library

    form = document.formenv
    textless = (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP)
    with_text = (
        raw.FPDF_FORMFIELD_TEXTFIELD,
        raw.FPDF_FORMFIELD_COMBOBOX,
        raw.FPDF_FORMFIELD_LISTBOX,
    )
    for number in range(min(raw.FPDFPage_GetAnnotCount(page), MOST_ENTRIES)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        text = ""
        if raw.FPDFAnnot_GetFlags(annotation) & raw.FPDF_ANNOT_FLAG_HIDDEN:
            pass  # invisible on the page
        elif kind != raw.FPDF_ANNOT_WIDGET and kind not in textless:
            text = _wide_text(partial(raw.FPDFAnnot_GetStringValue, annotation, b"Contents"))
        elif form and raw.FPDFAnnot_GetFormFieldType(form, annotation) in with_text:
            text = _wide_text(partial(raw.FPDFAnnot_GetFormFieldValue, form, annotation))
        raw.FPDFPage_CloseAnnot(annotation)
        yield text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _wide_text(read: Callable[[Any, int], int]) -> str:
    """Text of a function of PDFium that fills a buffer with UTF-16, and returns its size."""
    from pypdfium2 import raw  # an optional library

    size = read(None, 0)
    buffer = ctypes.create_string_buffer(size)
    read(ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")


def _has_picture(page: Any) -> bool:
    """Return whether a page shows a picture; a page without one may be blank on purpose."""
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE  # an optional library

    # Programs put a scan on the page or into a form; deeper nesting may be endless.
    pictures = page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE], max_depth=3)
    return next(pictures, None) is not None


def _add_page(outline: Outline, number: int, text: str, sections: list[tuple[int, str]]) -> None:
    """Add a page, split at its section titles; sections not found begin with the page."""
    anchor = f"page={number}"
    done = 0
    outline.part(anchor, number)
    for level, title in sections:
        sought = map(re.escape, title[:LONGEST_SOUGHT].split())
        match = re.compile(r"\s+".join(sought), re.I).search(text, done)
        if match is not None:
            outline.add(text[done : match.start()], "\n")
            done = match.start()
        outline.heading(level, title, anchor, visible=False)
    outline.add(text[done:], "\n\n" if done == 0 else "\n")


@contextmanager
def pdf_memory() -> Iterator[None]:
    """Let the worker process grow by at most `PDF_MEMORY` within the block.

    It counts on Linux alone, and only in the worker process, which is known by its limit: others
    run more than one reader.
    """
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0])  # in pages
    except OSError:  # not Linux
        yield
        return
    import resource  # Windows lacks it

    if resource.getrlimit(resource.RLIMIT_AS)[0] != MEMORY:
        yield
        return
    limit = min(used * resource.getpagesize() + PDF_MEMORY, MEMORY)
    resource.setrlimit(resource.RLIMIT_AS, (limit, MEMORY))
    try:
        try:
            yield
        finally:  # before making the error below, which takes memory too
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except MemoryError as error:
        raise UnreadableError(f"needs over {size(PDF_MEMORY)} of memory") from error
