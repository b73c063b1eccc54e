"""Places of hits: the file on this machine, and a link to it or to a web page.

An index may come from another machine, and files may be deleted: only an existing plain file is
linked.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from ..documents import Hit

PAGES = (".html", ".htm", ".xhtml")
BOOKS = (".pdf",)
_WEB = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_SHARE = re.compile(r"[\\/]([\\/]|\?\?)")
"""Start of a path on another computer; looking for it would reveal this one to that computer. The
second form is one of Windows' own."""


def file_of(path: object, beside: Path | None = None) -> Path | None:
    """Return the file named by a hit's column `path`, if it exists.

    A relative path is looked up in the working directory, or in the folder `beside`.
    """
    if not isinstance(path, str) or not path or _SHARE.match(path):
        return None
    try:
        file = Path(path) if beside is None else beside / path
        return file if file.is_file() else None
    except (OSError, ValueError):  # a name that is too long, or has a zero byte
        return None


def fragment(file: Path, hit: Hit) -> str:
    """Return the end of a link to a hit in its file: the anchor in HTML, the page in PDF, or "".

    >>> fragment(Path("a.pdf"), Hit("1", 0.9, "", page=7))
    '#page=7'
    """
    ending = file.suffix.lower()
    if ending in PAGES and hit.anchor:
        return "#" + quote(hit.anchor, safe="", errors="replace")
    if ending in BOOKS and hit.page is not None:
        return f"#page={hit.page}"
    return ""


def link_of(hit: Hit, file: Path | None) -> str | None:
    """Return the web address in a hit's column `url`, or else a link to its file on this machine.

    A link to code ends in its line, as editors read it.
    """
    url = hit.metadata.get("url")
    if isinstance(url, str) and is_address(url):
        return url
    if file is None:
        return None
    is_code = hit.metadata.get("kind") == "code"
    return file.absolute().as_uri() + (f"#L{hit.line}" if is_code else fragment(file, hit))


def is_address(text: str) -> bool:
    """Return whether a text is a plain web address and nothing else.

    >>> is_address("https://example.org/a?b=1"), is_address("javascript:alert(1)")
    (True, False)
    """
    return _WEB.fullmatch(text) is not None
