"""Readers of each kind of file, and the libraries that they require."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from slimdex.errors import InputError
from slimdex.system.extras import install_command

from ....column_types import storable
from ..decoding import declared_label, decode_text, stated_codec
from ..kinds import ending
from ..limits import UnreadableError
from ..outline import Extract
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
    "dateutil": "python-dateutil",
    "backports": "backports.zstd",
}
"""Modules of the extra `files` -> names of their distributions."""


def _read_xml(data: bytes) -> Extract:
    """Read a page, an office file or another file of XML, by its first element."""
    root = xml_files.root(data)
    if xml_files.local(root) == "html":
        return html_pages.read(data)
    if ":opendocument:" in root:
        return office_opendocument.read_odf(data)
    if "/wordml}" in root or "xmlPackage}" in root:
        return office_openxml.read_flat(data)
    return xml_files.read(data)


OF_BYTES = {
    "pdf": pdf.read,
    "docx": office_openxml.read_docx,
    "odt": office_opendocument.read_odf,
    "odp": office_opendocument.read_odf,
    "pptx": office_openxml.read_pptx,
    "epub": epub.read,
    "mail": mail.read,
    "xml": _read_xml,
}
OF_TEXT: dict[str, Callable[[str], Extract]] = {
    ".mdx": markdown.read_mdx,
    "markdown": markdown.read,
    "rst": markdown.read_rst,
    "notebook": markdown.read_notebook,
    "drawing": markdown.read_drawing,
    **dict.fromkeys(
        (".srt", ".vtt", ".sbv", ".lrc", ".ass", ".ssa", ".sub"), markdown.read_subtitles
    ),
}
"""Kind or ending -> reader of its bytes, or of its text; others are plain text."""


def read(name: str, kind: str, data: bytes, encoding: str | None = None) -> Extract:
    """Read the content of a file of a kind.

    Raises `UnreadableError` if the file is broken or too large, or a required library is missing.
    """
    try:
        extract = _read(name, kind, data, encoding)
        # The text is already cleaned. What can't be stored raises an error.
        storable({"title": extract.title, **extract.facts})
        return extract
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
    """Read a file of a kind."""
    if read_bytes := OF_BYTES.get(kind):
        return read_bytes(data)

    # Texts, whose encoding the user or the file states.
    label = html_pages.label_of(data) if kind == "html" else declared_label(data)
    is_guessed = stated_codec(data, encoding, label) is None
    text = decode_text(data, encoding, label)
    if kind == "html":
        extract = html_pages.read(data, encoding)
    elif kind == "code":
        extract = source_code.read(text, ending(name))
    else:
        read_text = OF_TEXT.get(ending(name)) or OF_TEXT.get(kind, markdown.read_plain)
        extract = read_text(text)
    return replace(extract, is_guessed=is_guessed)


def answer(request: dict[str, Any], data: bytes) -> dict[str, Any]:
    """Read a file for `Worker.read`, as JSON."""
    return asdict(read(request["name"], request["kind"], data, request["encoding"]))
