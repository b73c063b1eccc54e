"""Names of indexes and files: which folder is an index, and what a misspelt name may mean.

Imports little, since the command line looks for an index before it knows what to run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePath

from slimdex.system.suggestions import nearest

MANIFEST = "slimdex.manifest"
"""The file whose replacement is a commit, which every index has."""
ENDING = ".index"
"""Ending of an index's folder that is no part of its name."""
MOST_NAMES = 2000
"""Names of a folder that are compared with a misspelt one."""


def is_index(folder: str | Path) -> bool:
    """True for the folder of an index, of any format."""
    return os.path.isfile(os.path.join(folder, MANIFEST))  # false for a word longer than a name


def index_names(place: PurePath) -> Iterator[str]:
    """Yield names for an index, the shortest first: the folder's, then with those above it.

    An index in a hidden folder, such as .slimdex, is named after the folder above.

    >>> [*index_names(PurePath("/srv/notes/.slimdex"))]
    ['notes', 'srv-notes']
    """
    is_hidden = place.name[:1] in ("", ".")
    is_parent_shown = place.parent.name[:1] not in ("", ".")
    folder = place.parent if is_hidden and is_parent_shown else place
    name = folder.name.removesuffix(ENDING).lstrip(".")
    yield name
    for above in folder.parents:
        if above.name:  # the root has none
            name = f"{above.name}-{name}"
            yield name


def index_name(path: Path) -> str:
    """Return the shortest name of the index of a folder.

    >>> index_name(Path("/srv/news.index"))
    'news'
    """
    return next(index_names(path.absolute()))


def no_index(path: str | Path) -> str:
    """Message that a folder is no index; it suggests one of a similar name."""
    return f"{path}: no slimdex index there{_suggested_index(path)}"


def may_name_an_index(word: str) -> bool:
    """Return whether a word looks like the misspelt folder of an index.

    It ends with `.index`, or is a path that differs little from that of an index.
    """
    if word.lower().endswith(".index"):
        return True
    is_path = any(character in word for character in (".", os.sep))
    return is_path and _suggested_index(word) != ""


def _suggested_index(path: str | Path) -> str:
    """End of a message that suggests an index of a similar name in the same folder, or ""."""
    return _suggestion(path, lambda name: is_index(os.path.join(os.path.dirname(path), name)))


def no_file(path: str | Path) -> str:
    """Message that a file or folder does not exist; it suggests one of a similar name."""
    return f"{path}: no such file or folder{_suggestion(path, lambda name: name[:1] != '.')}"


def _suggestion(path: str | Path, is_candidate: Callable[[str], bool]) -> str:
    """End of a message that suggests a similar name in the same folder, or ""."""
    folder, misspelt = os.path.split(path)
    with suppress(OSError, ValueError):
        names = [*islice(filter(is_candidate, os.listdir(folder or ".")), MOST_NAMES)]
        stem, ending = os.path.splitext(misspelt)
        # Endings are much alike, so only stems are compared; names with the same ending first.
        same_ending = [name for name in names if name.endswith(ending)]
        for candidates in (same_ending, names):
            stems = {os.path.splitext(name)[0]: name for name in candidates}
            near = nearest(stem, stems)
            if near:
                return f"; did you mean {os.path.join(folder, stems[near])!r}?"
    return ""
