"""Clickable links of terminals (OSC 8), to existing files and web pages.

An index may come from another machine, and files may be deleted: only an existing plain file gets a
link. Its target is percent-encoded, so that no character can end the link early or control the
terminal.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from urllib.parse import quote

from rich.style import Style

from ..documents import Hit

LONGEST = 2083
"""Maximum length of a link that every terminal accepts, by the specification of OSC 8."""
PAGES = (".html", ".htm", ".xhtml")
BOOKS = (".pdf",)
_WEB = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_SHARE = re.compile(r"[\\/]{2}")
"""Start of a path on another computer; looking for it would reveal this one to that computer."""


def file_of(hit: Hit) -> Path | None:
    """Return the file named by a hit's column `path`, if it exists."""
    path = hit.metadata.get("path")
    if not isinstance(path, str) or not path or _SHARE.match(path):
        return None
    try:
        return Path(path) if Path(path).is_file() else None
    except (OSError, ValueError):  # a name that is too long, or has a zero byte
        return None


def link_to(file: Path, hit: Hit) -> Style:
    """Link to a file, at the hit's anchor in HTML or its page in PDF."""
    ending, place = file.suffix.lower(), ""
    if ending in PAGES and hit.anchor:
        place = "#" + quote(hit.anchor, safe="", errors="replace")
    elif ending in BOOKS and hit.page is not None:
        place = f"#page={hit.page}"
    return _link(file_uri(file) + place)


def file_uri(file: Path) -> str:
    """Return a file's URI with this computer's name: the terminal may be on another computer.

    >>> file_uri(Path("/tmp/a b;c.txt")).endswith("/tmp/a%20b%3Bc.txt")
    True
    """
    path = file.resolve() if ".." in file.parts else file.absolute()
    if sys.platform == "win32":
        return path.as_uri()
    return f"file://{quote(os.uname().nodename, safe='')}{quote(os.fsencode(path), safe='/')}"


def link_in(value: object) -> Style:
    """Link to a value, if that is a plain web address."""
    return _link(value) if isinstance(value, str) and is_address(value) else Style()


def is_address(text: str) -> bool:
    """Return whether a text is a plain web address and nothing else.

    >>> is_address("https://example.org/a?b=1"), is_address("javascript:alert(1)")
    (True, False)
    """
    return _WEB.fullmatch(text) is not None


def _link(uri: str) -> Style:
    """Style of a link; none if the output is not a terminal."""
    is_shown = sys.stdout.isatty() and len(uri) <= LONGEST
    return Style(link=uri) if is_shown else Style()
