"""Places of hits: the file on this machine.

An index may come from another machine, and files may be deleted: only an existing plain file
counts.
"""

from __future__ import annotations

import re
from pathlib import Path

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
