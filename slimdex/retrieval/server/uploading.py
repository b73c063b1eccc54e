"""Uploading: the documents of one file under the name that its sender gave it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from slimdex.indexes.errors import InputError

from ..collection import Collection
from ..ingest.adding import add_sources
from ..ingest.made_up_ids import MadeUpIds
from ..quality.refitting import settled
from ..sources.files.file_source import FileSource
from ..sources.files.input_files import FileFormat, ending_of, open_file
from ..sources.source import Source, Sources
from ..sources.tabular.columns import ColumnNames
from ..sources.tabular.table_files import READERS
from ..sources.tabular.tables import TableSource


def add_file(collection: Collection, path: Path, name: str) -> dict[str, Any]:
    """Add the documents of a file, like a file of a folder: its name is the document's id.

    Returns the counts and notes of `Added`, and all "documents" of the index as "total". Raises
    `InputError` if the kind of file is unknown, or there is nothing to read in it.

    Parameters
    ----------
    path : where the file is now; the index does not record it.
    name : path by which its sender calls it, see `upload_name`.
    """
    sources = Sources([_opened(path, name)])
    index, no_ids = collection.index, MadeUpIds((), {}, {}, ())
    added = settled(index, "auto", lambda: add_sources(index, sources, lambda _: no_ids))
    added = replace(added, notes=[*sources.notes, *added.notes])
    return asdict(added) | {"total": len(collection)}


def _opened(path: Path, name: str) -> Source:
    if ending_of(Path(name), FileFormat()) in READERS:
        file = open_file(name, path)
        file.id_prefix = name
        return TableSource(file, ColumnNames())
    source = FileSource.of_file(name, path, name)
    if source is None:
        raise InputError(
            f"{name}: an unknown kind of file; expected a text, page, PDF, office file, mailbox, "
            f"code or table ({', '.join(READERS)})"
        )
    return source


def upload_name(name: str) -> str:
    """Return a file's name, perhaps with folders; raises `InputError` if it leads out of them.

    >>> upload_name("reports/2024.md")
    'reports/2024.md'
    >>> upload_name("../secrets.md")
    Traceback (most recent call last):
    ...
    slimdex.indexes.errors.InputError: file '../secrets.md'; expected a name such as notes/boiler.md
    """
    parts = name.split("/")
    is_odd = any(part.strip() in ("", ".", "..") for part in parts)
    if is_odd or len(name) > 500 or "\\" in name or not name.isprintable():
        raise InputError(f"file {name[:100]!r}; expected a name such as notes/boiler.md")
    return name
