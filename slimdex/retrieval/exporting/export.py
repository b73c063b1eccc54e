"""Export of an index in another format, written atomically."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slimdex.errors import InputError
from slimdex.system.atomic_files import check_new, publish_file, publish_folder
from slimdex.system.extras import require

from ..index import Index
from ..store.snapshot import Snapshot
from . import faiss_folder
from .selection import FULL, REDUCED, VECTORS, Selection

if TYPE_CHECKING:
    from ..collection import Collection

FILES = ("parquet", "jsonl", "csv")
"""Files of documents with vectors."""
FAISS = "faiss"
MODEL = "sentence-transformers"
"""Folders: one of documents with vectors; and one of the encoder and reducer, without documents."""
FORMATS = (*FILES, FAISS, MODEL)


@dataclass(frozen=True)
class ExportReport:
    """Description of an export."""

    to: str  # format
    path: Path  # of a file or folder
    vectors: str  # "reduced" or "full"
    dim: int  # dimensions of a vector
    rows: int | None  # None for models
    documents: int | None  # None for models
    notes: list[str]  # for the user


def export(
    collection: Collection,
    path: str | Path,
    to: str,
    *,
    vectors: str | None = None,
    where: str | None = None,
) -> ExportReport:
    """Write an index's documents and vectors, or its encoder and reducer, for other programs.

    The export is written under a temporary name and renamed when complete and synced. Documents
    without text have no vector and are omitted, as in searches.

    Raises `InputError` if the path exists, the format is unknown, no document is selected, a
    library is missing, or the format can't represent the index's reducer or encoder.

    Parameters
    ----------
    path
        must not exist.
    to
        "parquet", "jsonl", "csv" or "faiss", with documents; "sentence-transformers" for a model.
    vectors
        "full", the encoder's vectors as stored on disk, from which an index can be rebuilt; or
        "reduced", k dimensions of unit length, the input of the codes. None means "full" for files
        and "reduced" for folders: FAISS, whose index reduces queries itself, and models.
    where
        a DuckDB expression on the documents' columns that selects documents.
    """
    return export_index(collection.index, Path(path), to, vectors=vectors, where=where)


def export_index(
    index: Index, path: Path, to: str, *, vectors: str | None = None, where: str | None = None
) -> ExportReport:
    """Write an index in another format: see `export`."""
    if to not in FORMATS:
        raise InputError(f"to={to!r}; expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    usual = FULL if to in FILES else REDUCED
    kind = usual if vectors is None else vectors
    if kind not in VECTORS:
        raise InputError(f"vectors={kind!r}; expected {' or '.join(VECTORS)}")
    if to == MODEL and where is not None:
        raise InputError(f"to={to!r}, where={where!r}; expected none: a model holds no documents")
    check_new(path, "file" if to in FILES else "folder")

    # Export a model, which holds no rows.
    if to == MODEL:
        require(f"to={to!r}", "torch")
        from . import sentence_transformers_folder  # loads torch

        dim = publish_folder(path, lambda new: sentence_transformers_folder.write(index, kind, new))
        return ExportReport(
            to=to, path=path, vectors=kind, dim=dim, rows=None, documents=None, notes=[]
        )

    if to in FILES:
        require(f"to={to!r}", "export", "pyarrow")

    # Export documents with vectors.
    def write(new: Path, snapshot: Snapshot) -> ExportReport:
        snapshot.check_encoded()
        selection = Selection.of(snapshot, kind, where)
        notes = list[str]()
        if to in FILES:
            from .row_files import write_rows  # loads pyarrow

            notes = write_rows(selection, new, to)
        else:
            faiss_folder.write(selection, new)
        return ExportReport(
            to=to,
            path=path,
            vectors=kind,
            dim=selection.dim,
            rows=len(selection),
            documents=len(np.unique(selection.firsts(selection.rows))),
            notes=notes,
        )

    publish = publish_file if to in FILES else publish_folder
    return publish(path, lambda new: index.read(lambda snapshot: write(new, snapshot)))
