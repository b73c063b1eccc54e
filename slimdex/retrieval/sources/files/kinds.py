"""Kinds of files, detected by name and first bytes."""

from __future__ import annotations

import re
from mimetypes import MimeTypes
from pathlib import PurePath

from ...lexical.code_files import CODE
from . import notes
from .decoding import MARKS, is_text
from .packed import ENDINGS, GZIP, OLE, ZSTD

HEAD = 4096
"""Bytes read to detect the kind."""
BOOKS = ("pdf", "docx", "odt", "odp", "pptx", "epub")
"""Kinds with compressed text."""
BY_ENDING = {
    **dict.fromkeys(
        (".md", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd", ".mdx", ".mdc", ".mdoc", ".livemd"),
        "markdown",
    ),
    **dict.fromkeys((".rst", ".rest"), "rst"),
    **dict.fromkeys((".txt", ".text", ".log"), "text"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    ".pdf": "pdf",
    **dict.fromkeys((".docx", ".docm", ".dotx", ".dotm"), "docx"),
    **dict.fromkeys((".pptx", ".pptm", ".potx", ".potm", ".ppsx", ".ppsm"), "pptx"),
    **dict.fromkeys((".odt", ".ott", ".fodt"), "odt"),
    **dict.fromkeys((".odp", ".otp", ".fodp"), "odp"),
    ".epub": "epub",
    ".ipynb": "notebook",
    **dict.fromkeys((".excalidraw", ".canvas"), "drawing"),
    **dict.fromkeys((".xml", ".svg", ".rss", ".atom", ".plist", ".fb2"), "xml"),
    **dict.fromkeys((".eml", ".emlx"), "mail"),
    **dict.fromkeys((".mbox", ".mbx"), "mailbox"),
}
TABLES = (
    *(".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet"),
    *(".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
)
"""Endings of tables, which are skipped in folders and must be named as sources."""
DATABASES = (".duckdb", ".db", ".sqlite", ".sqlite3")
DATA = frozenset((*TABLES, *DATABASES, ".map", ".po", ".pot", ".geojson"))
"""Endings of files that are not prose or code."""
MEDIA = ("image/", "audio/", "video/", "font/", "application/octet-stream")
"""Beginnings of the types of files that have no text; MimeTypes() does not ask the system."""
MAGIC = {
    b"%PDF-": "pdf",
    **dict.fromkeys((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"), "archive"),
    **dict.fromkeys((GZIP, ZSTD), "packed"),
}
"""First bytes -> kind."""
XML = re.compile(rb"(\xef\xbb\xbf)?\s*<(\?xml\s|\w+\s[^<>]*\bversion=)")
"""XML declaration, or a root element with a version; no code begins like this."""
TRANSLATIONS = re.compile(rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?<(!DOCTYPE\s+)?TS\b")
"""Translations of Qt, which have the same ending as TypeScript."""
JSON = re.compile(rb'\s*+\[?\s*+\{\s*+"[^"\n]*"\s*+:(?!(?s:.*)\}\r?\n\{)')
"""Beginning of JSON, as opposed to JSON Lines."""
RTF = b"{\\rtf"
PAGE = re.compile(
    rb"\s*(<\?xml[^>]*>\s*)?(?><!--.*?-->\s*)*+<(!doctype\s+html|html)\b", re.I | re.S
)
HEADERS = re.compile(rb"(?:[\w-]+:.*\n(?:[ \t].*\n)*+)+")
OF_MAIL = re.compile(
    rb"^(?:(return-path|received|delivered-to|message-id|mime-version)|from|date|subject|to): ",
    re.I | re.M,
)
"""Name of a mail header; the group matches those that only programs write."""
MAILBOX = re.compile(rb"From \S+ (?>.*?\d\d:\d\d).*+\n[\w-]+:")
ARCHIVES = {
    b"application/epub+zip": "epub",
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.presentation": "odp",
    b"word/": "docx",
    b"ppt/": "pptx",
}
"""Bytes near the beginning of an archive -> kind."""


def ending(name: str) -> str:
    """Ending of a name in lower case, without that of a compression.

    >>> ending("NOTES.MD"), ending("changes.txt.gz"), ending("Makefile")
    ('.md', '.txt', '')
    """
    path = PurePath(name)
    if path.suffix.lower() in ENDINGS:
        path = path.with_suffix("")
    return path.suffix.lower()


def kind_of(name: str, head: bytes) -> str | None:
    r"""Kind of a file: "markdown", "pdf", "packed" and so on; None if unsupported.

    Unambiguous first bytes take precedence over the name.

    >>> kind_of("a.md", b"# A"), kind_of("README", b"Good morning"), kind_of("a.txt", b"%PDF-1.4")
    ('markdown', 'text', 'pdf')
    >>> kind_of("a.bin", b"\x00\x01"), kind_of("a.csv", b"id,text")
    (None, None)
    """
    kind = BY_ENDING.get(ending(name))

    # Decide by the first bytes and, for archives, by the names or types of their entries.
    magic = next((kind_ for start, kind_ in MAGIC.items() if head.startswith(start)), None)
    if magic == "packed":
        return magic
    if magic == "archive":
        inside = (kind_ for mark, kind_ in ARCHIVES.items() if mark in head)
        return kind if kind in BOOKS else next(inside, None)
    if magic or kind in BOOKS:
        return magic or kind  # the reader reports errors

    # Decide by the name whether it is a text.
    if ending(name) in DATA or not is_text(head) or head.startswith(RTF):
        return None
    if TRANSLATIONS.match(head):
        return None
    if kind:
        return kind
    is_xml = XML.match(head) and b"<?php" not in head
    if (ending(name) in CODE and not is_xml) or head.startswith(b"#!"):
        return "code"
    return _by_content(head)


def _by_content(head: bytes) -> str | None:
    r"""Detect the kind of a text by its content; None for data.

    >>> _by_content(b'[{"a": {}}\n]'), _by_content(b'{"a": 1}\n{"a": 2}'), _by_content(b"{a: 1}")
    (None, 'text', 'text')
    """
    if JSON.match(head):
        return None
    if any(head.startswith(mark) for mark in MARKS):
        return "text"
    if PAGE.match(head):
        return "html"
    if XML.match(head):
        return "xml"
    if MAILBOX.match(head):
        return "mailbox"
    headers = HEADERS.match(head)
    of_mail = OF_MAIL.findall(headers[0]) if headers else []
    is_mail = len(of_mail) > 1 and (any(of_mail) or OF_MAIL.match(head))
    return "mail" if is_mail else "text"


def omission_note(name: str, head: bytes) -> str:
    r"""Note on a file with this name and these first bytes, which has no kind.

    >>> omission_note("a.md", b""), omission_note("a.doc", b"\xd0"), omission_note("a.png", b"\x89")
    ('left out, empty', 'left out, unsupported', 'left out, binary')
    """
    if not head:
        return notes.EMPTY
    if ending(name) in DATA or TRANSLATIONS.match(head) or JSON.match(head):
        return notes.TABLES
    media_type, _ = MimeTypes().guess_type(f"a{ending(name)}", strict=False)
    is_media = media_type is not None and media_type.startswith(MEDIA)
    is_binary = is_media and not head.startswith((OLE, RTF))
    return notes.BINARY if is_binary else notes.UNSUPPORTED
