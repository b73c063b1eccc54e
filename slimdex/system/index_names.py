"""Names of indexes and files, and which folder is an index.

Imports little, since the command line looks for an index before it knows what to run.
"""

from __future__ import annotations

import os
from pathlib import Path

MANIFEST = "slimdex.manifest"
"""The file whose replacement is a commit, which every index has."""
ENDING = ".index"
"""Ending of an index's folder that is no part of its name."""


def is_index(folder: str | Path) -> bool:
    """True for the folder of an index, of any format."""
    return os.path.isfile(os.path.join(folder, MANIFEST))  # false for a word longer than a name


def index_name(path: Path) -> str:
    """Return the name of the index of a folder.

    An index in a hidden folder, such as .slimdex, is named after the folder above.

    >>> index_name(Path("/srv/news.index")), index_name(Path("/srv/notes/.slimdex"))
    ('news', 'notes')
    """
    place = path.absolute()
    is_hidden = place.name[:1] in ("", ".")
    is_parent_shown = place.parent.name[:1] not in ("", ".")
    folder = place.parent if is_hidden and is_parent_shown else place
    return folder.name.removesuffix(ENDING).lstrip(".")


def no_index(path: str | Path) -> str:
    """Message that a folder is no index."""
    return f"{path}: no slimdex index there"


def no_file(path: str | Path) -> str:
    """Message that a file or folder does not exist."""
    return f"{path}: no such file or folder"
