"""Readers of each kind of file, and the libraries that they require."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slimdex.errors import InputError
from slimdex.system.extras import install_command
from slimdex.system.unicode_text import check_unicode

from ..decoding import declared_label, decode_text, recording_losses
from ..kinds import BY_ENDING, HEAD, ending, kind_of
from ..limits import UnreadableError
from ..outline import Extract, Outline
from ..packed import unpack
from . import (
    epub,
    html_pages,
    mail,
    markdown,
    office_opendocument,
    office_openxml,
    pdf,
    source_code,
    xml_files,
)

LIBRARIES = {
    "lxml": "lxml",
    "selectolax": "selectolax",
    "markdown_it": "markdown-it-py",
    "pypdfium2": "pypdfium2",
    "charset_normalizer": "charset-normalizer",
    "yaml": "PyYAML",
    "backports": "backports.zstd",
}
"""Modules of the extra `files` -> names of their distributions."""

OF_BYTES = {
    "pdf": pdf.read,
    "docx": office_openxml.read_docx,
    "odt": office_opendocument.read_odf,
    "odp": office_opendocument.read_odf,
    "pptx": office_openxml.read_pptx,
    "epub": epub.read,
    "mail": mail.read,
}
OF_TEXT = {"markdown": markdown.read, "rst": markdown.read_rst, "notebook": markdown.read_notebook}
"""Kind -> reader of its bytes, or of its text; others are plain text."""


def read(name: str, kind: str, data: bytes, encoding: str | None = None) -> tuple[str, Extract]:
    """Read a file's content; return it with the kind, which for compressed files is detected here.

    Raises `UnreadableError` if the file is broken or too large, or a required library is missing.
    """
    try:
        if kind == "packed":
            data = unpack(data)
            kind = kind_of(name, data[:HEAD]) or "text"
        with recording_losses() as losses:
            extract = _read(name, kind, data, encoding)
        extract = replace(extract, is_guessed=losses.is_guessed, replaced=losses.replaced)
        check_unicode([extract.title, extract.facts], "its metadata")  # the text is already cleaned
        return kind, extract
    except InputError as error:
        raise UnreadableError(str(error)) from error
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in LIBRARIES:
            raise
        raise UnreadableError(
            f"requires {LIBRARIES[module]}: {install_command('files')}"
        ) from error
    except RecursionError as error:
        raise UnreadableError("nested too deep") from error


def _read(name: str, kind: str, data: bytes, encoding: str | None) -> Extract:
    """Read an uncompressed file of a kind."""
    if kind == "xml":
        try:
            return _read_xml(data)
        except UnreadableError:  # a template for XML, perhaps, which is text
            if BY_ENDING.get(ending(name)) == kind:
                raise
    elif read_bytes := OF_BYTES.get(kind):
        return read_bytes(data)
    if kind == "html":
        return html_pages.read(data, encoding)
    text = decode_text(data, encoding, declared_label(data))
    if kind == "code":
        return source_code.read(text, ending(name))
    if read_text := OF_TEXT.get(kind):
        return read_text(text)

    # Plain text begins at line 1 of its file.
    outline = Outline()
    outline.add(text, lines=[(0, 1)])
    return Extract("", outline.text, outline.parts)


def _read_xml(data: bytes) -> Extract:
    """Read a page, an office file or another file of XML, by its first element."""
    root = xml_files.root(data)
    if xml_files.local(root) == "html":
        return html_pages.extract(xml_files.xhtml_events(data))
    if ":opendocument:" in root:
        return office_opendocument.read_odf(data)
    if "/wordml}" in root or "xmlPackage}" in root:
        return office_openxml.read_flat(data)
    return xml_files.read(data)


def answer(request: dict[str, Any], data: bytes) -> dict[str, Any]:
    """Read a file for `Worker.read`, as JSON."""
    kind, extract = read(request["name"], request["kind"], data, request["encoding"])
    parts = []
    for part in extract.parts:
        parts.append([part.start, [*part.headings], part.page, part.anchor, [*part.lines]])
    return {
        "kind": kind,
        "title": extract.title,
        "text": extract.text,
        "parts": parts,
        "facts": dict(extract.facts),
        "scanned": extract.scanned,
        "is_guessed": extract.is_guessed,
        "replaced": extract.replaced,
    }
