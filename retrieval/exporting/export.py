"""Export: an index in a format that others read, written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slimdex.indexes.errors import InputError

from ..atomic_files import check_new, publish_file, publish_folder
from ..collection.collection import Collection
from ..collection.open_index import OpenIndex
from ..collection.view import View
from . import (
    faiss_folder,
    npz_file,
    onnx_folder,
    parquet_file,
    sentence_transformers_folder,
    text_rows,
)
from .reduced_model import ReducedModel
from .selection import FULL, REDUCED, VECTORS, Selection

FILE, FOLDER = "file", "folder"
WriteRows = Callable[[Selection, Path], list[str]]
"""Writes rows to a new path, and returns what the user should know."""
WriteModel = Callable[[ReducedModel, Path], list[str]]
"""Fills a folder with a model, and returns the same."""


@dataclass(frozen=True)
class RowFormat:
    """A format of rows: whether it is a file or a folder, and what writes it."""

    kind: str
    write: WriteRows


ROW_FORMATS: Mapping[str, RowFormat] = {
    "parquet": RowFormat(FILE, parquet_file.write),
    "jsonl": RowFormat(FILE, text_rows.write_jsonl),
    "csv": RowFormat(FILE, text_rows.write_csv),
    "npz": RowFormat(FILE, npz_file.write),
    "faiss": RowFormat(FOLDER, faiss_folder.write),
}
"""Name -> a format with vectors of documents."""
MODEL_FORMATS: Mapping[str, WriteModel] = {
    "sentence-transformers": sentence_transformers_folder.write,
    "onnx": onnx_folder.write,
}
"""Name -> a format with the encoder and the reducer, a folder, without documents."""
FORMATS = (*ROW_FORMATS, *MODEL_FORMATS)


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes
    ----------
    to : the format.
    path : the file or folder.
    vectors : "reduced" or "full".
    dim : dimensions of a vector.
    rows, documents : how many rows of how many documents; None where there are none to be had.
    notes : what the user should know.
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
    """Write an index's documents and vectors, or its encoder with its reducer, for others.

    It is written under another name and gets its own when it is whole and on disk. Documents
    without text have no vector and are left out, as from searches.

    Parameters
    ----------
    path : must not exist.
    to : "parquet", "jsonl", "csv", "npz" or "faiss", with documents; "sentence-transformers" or
        "onnx", a model.
    vectors : "full", the encoder's own, as they are kept on disk, from which an index can be built
        again; or "reduced", as the codes see them: k dimensions, of unit length. None is "full" in
        files and "reduced" in folders: FAISS's, whose index reduces by itself, and models.
    where : a DuckDB expression on the documents' columns; the others are left out.

    Raises
    ------
    InputError
        If the path exists, there is no such format, no document to export, or a library is missing;
        if the format has nothing like the index's reducer or encoder.
    """
    path = Path(path)
    if to not in FORMATS:
        raise InputError(f"to={to!r}; expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if vectors is None:
        vectors = FULL if to in ROW_FORMATS and ROW_FORMATS[to].kind == FILE else REDUCED
    if vectors not in VECTORS:
        raise InputError(f"vectors={vectors!r}; expected {' or '.join(VECTORS)}")
    if to in ROW_FORMATS:
        return _export_rows(collection.core, path, to, vectors, where)
    if where is not None:
        raise InputError(f"to={to!r}, where={where!r}; expected none: it holds no documents")
    return _export_model(collection.core, path, to, vectors)


def _export_rows(core: OpenIndex, path: Path, to: str, vectors: str, where: str | None) -> Exported:
    made = ROW_FORMATS[to]

    def written(new: Path, view: View) -> Exported:
        chosen = Selection.of(view, vectors, where)
        notes = made.write(chosen, new)
        counts = len(chosen), chosen.count_documents()
        return Exported(to, path, vectors, chosen.dim, *counts, notes)

    def write(new: Path) -> Exported:
        return core.read(lambda view: written(new, view))

    check_new(path, made.kind)
    return publish_folder(path, write) if made.kind == FOLDER else publish_file(path, write)


def _export_model(core: OpenIndex, path: Path, to: str, vectors: str) -> Exported:
    check_new(path)
    model = ReducedModel.of(core, vectors)
    notes = publish_folder(path, lambda new: MODEL_FORMATS[to](model, new))
    return Exported(to, path, vectors, model.dim, None, None, notes)
