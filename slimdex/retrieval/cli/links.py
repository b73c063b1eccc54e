"""Clickable links of terminals (OSC 8), to existing files and web pages.

A link's target is percent-encoded, so that no character can end the link early or control the
terminal.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import quote

from rich.style import Style

from ..documents import Hit
from ..operations.places import fragment, is_address

LONGEST = 2083
"""Maximum length of a link that every terminal accepts, by the specification of OSC 8."""


def link_to(file: Path, hit: Hit) -> Style:
    """Link to a file, at the hit's anchor in HTML or its page in PDF."""
    return _link(file_uri(file) + fragment(file, hit))


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


def _link(uri: str) -> Style:
    """Style of a link; none if the output is not a terminal."""
    is_shown = sys.stdout.isatty() and len(uri) <= LONGEST
    return Style(link=uri) if is_shown else Style()
