"""Export of an index in another format, written atomically."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slimdex.indexes.errors import InputError

from ..atomic_files import check_new, publish_file, publish_folder
from ..collection import Collection
from ..storage.snapshot import Snapshot
from . import faiss_folder, row_files, sentence_transformers_folder
from .reduced_model import ReducedModel
from .selection import FULL, REDUCED, VECTORS, Selection

WriteRows = Callable[[Selection, Path], list[str]]
"""Writes rows to a new path; returns notes for the user."""
WriteModel = Callable[[ReducedModel, Path], list[str]]
"""Writes a model to a folder; returns notes for the user."""
ROW_FILES: Mapping[str, WriteRows] = {
    "parquet": row_files.write_parquet,
    "jsonl": row_files.write_jsonl,
    "csv": row_files.write_csv,
}
ROW_FOLDERS: Mapping[str, WriteRows] = {"faiss": faiss_folder.write}
"""Name -> format of documents with vectors."""
MODEL_FOLDERS: Mapping[str, WriteModel] = {
    "sentence-transformers": sentence_transformers_folder.write,
}
"""Name -> format of a folder with the encoder and reducer, without documents."""
FORMATS = (*ROW_FILES, *ROW_FOLDERS, *MODEL_FOLDERS)


@dataclass(frozen=True)
class Exported:
    """Description of an export.

    Attributes
    ----------
    to : format.
    path : file or folder.
    vectors : "reduced" or "full".
    dim : dimensions of a vector.
    rows, documents : numbers of rows and documents; None for models.
    notes : notes for the user.
    """

    to: str
    path: Path
    vectors: str
    dim: int
    rows: int | None
    documents: int | None
    notes: list[str]


def export(
    collection: Collection,
    path: str | Path,
    to: str,
    *,
    vectors: str | None = None,
    where: str | None = None,
) -> Exported:
    """Write an index's documents and vectors, or its encoder and reducer, for other programs.

    The export is written under a temporary name and renamed when complete and synced. Documents
    without text have no vector and are omitted, as in searches.

    Parameters
    ----------
    path : must not exist.
    to : "parquet", "jsonl", "csv" or "faiss", with documents; "sentence-transformers" for a
        model.
    vectors : "full", the encoder's vectors as stored on disk, from which an index can be rebuilt;
        or "reduced", k dimensions of unit length, the input of the codes. None means "full" for
        files and "reduced" for folders: FAISS, whose index reduces queries itself, and models.
    where : a DuckDB expression on the documents' columns that selects documents.

    Raises
    ------
    InputError
        If the path exists, the format is unknown, no document is selected, a library is missing, or
        the format can't represent the index's reducer or encoder.
    """
    path = Path(path)
    if to not in FORMATS:
        raise InputError(f"to={to!r}; expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if vectors is None:
        vectors = FULL if to in ROW_FILES else REDUCED
    if vectors not in VECTORS:
        raise InputError(f"vectors={vectors!r}; expected {' or '.join(VECTORS)}")
    if to not in MODEL_FOLDERS:
        return _export_rows(collection, path, to, vectors, where)
    if where is not None:
        raise InputError(f"to={to!r}, where={where!r}; expected none: a model holds no documents")
    return _export_model(collection, path, to, vectors)


def _export_rows(
    collection: Collection, path: Path, to: str, vectors: str, where: str | None
) -> Exported:
    def written(new: Path, snapshot: Snapshot) -> Exported:
        selection = Selection.of(snapshot, vectors, where)
        notes = {**ROW_FILES, **ROW_FOLDERS}[to](selection, new)
        counts = len(selection), selection.count_documents()
        return Exported(to, path, vectors, selection.dim, *counts, notes)

    def write(new: Path) -> Exported:
        return collection.read(lambda snapshot: written(new, snapshot))

    if to in ROW_FILES:
        check_new(path, "file")
        return publish_file(path, write)
    check_new(path)
    return publish_folder(path, write)


def _export_model(collection: Collection, path: Path, to: str, vectors: str) -> Exported:
    check_new(path)
    model = ReducedModel.of(collection, vectors)
    notes = publish_folder(path, lambda new: MODEL_FOLDERS[to](model, new))
    return Exported(to, path, vectors, model.dim, None, None, notes)
