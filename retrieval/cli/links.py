"""Links: what a terminal opens by a click (OSC 8), for files that are there and for web pages.

A path in an index may be another's, and the file may have gone: a link is made only to a plain file
that is there now. What is written between the link's marks is percent-encoded, so that nothing in
it can end the link early or be obeyed.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path
from urllib.parse import quote

from rich.style import Style

from ..documents import Hit

LONGEST = 2083
"""Characters of a link that every terminal takes, by the specification of OSC 8."""
PAGES = (".html", ".htm", ".xhtml")
BOOKS = (".pdf",)
_WEB = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_SHARE = re.compile(r"[\\/]{2}")
"""How a path begins that is on another computer: only to look for it would tell that one who we
are."""


def file_of(hit: Hit) -> Path | None:
    """The file that a hit's column `path` names, as it is written there, if there is one now."""
    path = hit.metadata.get("path")
    if not isinstance(path, str) or not path or _SHARE.match(path):
        return None
    try:
        return Path(path) if Path(path).is_file() else None
    except (OSError, ValueError):  # a name that is too long, or has a zero byte
        return None


def link_to(file: Path, hit: Hit) -> Style:
    """A link to a file, to the place in it where a browser or a reader of PDF can go there."""
    ending, place = file.suffix.lower(), ""
    if ending in PAGES and hit.anchor:
        place = "#" + quote(hit.anchor, safe="", errors="replace")
    elif ending in BOOKS and hit.page is not None:
        place = f"#page={hit.page}"
    return _link(file_uri(file) + place)


def file_uri(file: Path) -> str:
    """A file's URI, which names this computer: a terminal may show what another one writes.

    >>> file_uri(Path("/tmp/a b;c.txt")).endswith("/tmp/a%20b%3Bc.txt")
    True
    """
    path = file.resolve() if ".." in file.parts else file.absolute()
    if sys.platform == "win32":
        return path.as_uri()
    return f"file://{quote(socket.gethostname(), safe='')}{quote(os.fsencode(path), safe='/')}"


def link_in(value: object) -> Style:
    """A link to what a value says, if that is a plain address on the web."""
    return _link(value) if isinstance(value, str) and is_address(value) else Style()


def is_address(text: str) -> bool:
    """Whether a text is a plain address on the web, and nothing else.

    >>> is_address("https://example.org/a?b=1"), is_address("javascript:alert(1)")
    (True, False)
    """
    return _WEB.fullmatch(text) is not None


def _link(uri: str) -> Style:
    """No style where the output is no terminal: links are for clicks."""
    is_shown = sys.stdout.isatty() and len(uri) <= LONGEST
    return Style(link=uri) if is_shown else Style()
