"""Export: an index in a format that others read, written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slimdex.indexes.errors import InputError
from slimdex.indexes.progress import Progress, silent

from ..atomic_files import check_new, publish_file, publish_folder
from ..collection.collection import Collection
from ..collection.snapshot import Snapshot
from . import faiss_folder, npz_file, parquet_file
from .selection import REDUCED, VECTORS, Selection

FILE, FOLDER = "file", "folder"
WriteRows = Callable[[Selection, Path, Progress], list[str]]
"""Writes rows to a new path, and returns what the user should know."""


@dataclass(frozen=True)
class RowFormat:
    """A format of rows: whether it is a file or a folder, and what writes it."""

    kind: str
    write: WriteRows


ROW_FORMATS: Mapping[str, RowFormat] = {
    "parquet": RowFormat(FILE, parquet_file.write),
    "npz": RowFormat(FILE, npz_file.write),
    "faiss": RowFormat(FOLDER, faiss_folder.write),
}
"""Name -> a format with vectors of documents."""
FORMATS = (*ROW_FORMATS,)


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes
    ----------
    to : the format.
    path : the file or folder.
    vectors : "reduced" or "full".
    dim : dimensions of a vector.
    rows, documents : how many rows of how many documents.
    notes : what the user should know.
    """

    to: str
    path: Path
    vectors: str
    dim: int
    rows: int
    documents: int
    notes: list[str]


def export(
    collection: Collection,
    path: str | Path,
    to: str,
    *,
    vectors: str = REDUCED,
    where: str | None = None,
    progress: Progress = silent,
) -> Exported:
    """Write an index's documents and vectors to a new file or folder.

    It is written under another name and gets its own when it is whole and on disk. Documents
    without text have no vector and are left out, as from searches.

    Parameters
    ----------
    path : must not exist.
    to : "parquet", "npz" or "faiss".
    vectors : "reduced", as the codes see them: k dimensions, of unit length; or "full", the
        encoder's own, as they are kept on disk.
    where : a DuckDB expression on the documents' columns; the others are left out.
    progress : called as `progress(name, done, total)` now and then.

    Raises
    ------
    InputError
        If the path exists, there is no such format, no document to export, or a library is missing;
        for FAISS and a reducer that is not linear.
    """
    path = Path(path)
    if to not in FORMATS:
        raise InputError(f"to={to!r}; expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if vectors not in VECTORS:
        raise InputError(f"vectors={vectors!r}; expected {' or '.join(VECTORS)}")
    return _export_rows(collection, path, to, vectors, where, progress)


def _export_rows(
    collection: Collection, path: Path, to: str, vectors: str, where: str | None, progress: Progress
) -> Exported:
    made = ROW_FORMATS[to]

    def written(new: Path, snapshot: Snapshot) -> Exported:
        chosen = Selection.of(collection, snapshot, vectors, where)
        notes = made.write(chosen, new, progress)
        counts = len(chosen), chosen.count_documents()
        return Exported(to, path, vectors, chosen.dim, *counts, notes)

    def write(new: Path) -> Exported:
        return collection._current.read(lambda snapshot: written(new, snapshot))

    check_new(path, made.kind)
    return publish_folder(path, write) if made.kind == FOLDER else publish_file(path, write)
