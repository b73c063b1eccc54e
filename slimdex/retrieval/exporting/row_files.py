"""Export of documents with columns and vectors: Parquet by pyarrow; JSONL and CSV by DuckDB."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows
from slimdex.system.duckdb_library import connect, literal, one_file
from slimdex.system.progress import progress

from ..sources.tabular.columns import storage_names
from .selection import Selection

VECTOR = "vector"
PARQUET = "parquet"
FORMATS = {PARQUET: "", "jsonl": "FORMAT json", "csv": "FORMAT csv, HEADER"}
"""Name of a format -> DuckDB's options for it."""
PASSAGE_TYPES = {
    "passage_id": pa.string(),
    **dict.fromkeys(("passage", "start", "end", "line", "last_line", "page"), pa.int64()),
    "headings": pa.list_(pa.string()),
    "anchor": pa.string(),
}
"""Columns of an index whose texts are cut."""


def write_rows(selection: Selection, path: Path, to: str) -> list[str]:
    """Write a row for each document or passage: id, title, text, the user's columns, `vector`.

    If texts are cut, `text` is the passage, followed by its number and position as in a hit, and
    `passage_id` (document id, "#", number) is unique.

    Returns notes on renamed columns. Raises `InputError` if Parquet does not support a column's
    type.
    """
    ours = ["id", "title", "text", *(PASSAGE_TYPES if selection.is_cut else ()), VECTOR]
    names = storage_names([*selection.snapshot.columns], ours)
    if to == PARQUET:
        _write_parquet(selection, path, names)
    else:
        with TemporaryDirectory(prefix=path.name, dir=path.parent) as folder:
            rows = Path(folder) / "rows"
            _write_parquet(selection, rows, names)
            source = f"FROM read_parquet({one_file(str(rows))})"
            connect().execute(f"COPY ({source}) TO {literal(str(path))} ({FORMATS[to]})")
    renamed = {old: new for old, new in names.items() if old != new}
    return [f"column {old!r} is {new!r} in the file" for old, new in renamed.items()]


def _write_parquet(selection: Selection, path: Path, names: dict[str, str]) -> None:
    """Write a Parquet file; `names` are those of the user's columns in the file."""
    writer = None
    done = 0
    try:
        for rows in selection.parts():
            table = _table(selection, rows, names)
            if writer is None:
                # Store repeated values in a dictionary; vectors and lists hardly ever repeat.
                plain = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
                writer = pq.ParquetWriter(path, table.schema, use_dictionary=plain)
            writer.write_table(table, row_group_size=len(table))
            done += len(rows)
            progress("exporting", done, len(selection))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InputError(f"to='parquet': {error}; expected types that Parquet supports") from error
    finally:
        if writer is not None:
            writer.close()


def _table(selection: Selection, rows: Rows, names: dict[str, str]) -> pa.Table:
    """Build a table of some rows; `names` are those of the user's columns in the file."""
    # Each document is read once; `document_of_row` is its position among them.
    firsts, document_of_row = np.unique(selection.firsts(rows), return_inverse=True)
    documents = selection.snapshot.store.arrow(firsts)
    if selection.is_cut:  # repeating the whole text per passage would be too large
        documents = documents.drop_columns(["text"]).take(pa.array(document_of_row))
        texts = _passages(selection, rows)
    else:
        texts = {"text": documents["text"]}
    columns = {"id": documents["id"], "title": documents["title"]} | texts
    for name, type_ in selection.snapshot.columns.items():
        columns[names[name]] = _typed(documents[name], type_)
    columns[VECTOR] = pa.FixedSizeListArray.from_arrays(selection.take(rows).ravel(), selection.dim)
    return pa.table(columns)


def _passages(selection: Selection, rows: Rows) -> dict[str, Any]:
    """Columns of passages, including their texts."""
    records = []
    numbers = (rows - selection.firsts(rows)).tolist()
    for hit, number in zip(selection.hits(rows), numbers, strict=True):
        passage = vars(hit) | {"passage_id": f"{hit.id}#{number}", "passage": number}
        records.append(passage | {"anchor": hit.anchor or None})
    columns = {"text": pa.array([record["text"] for record in records], pa.string())}
    for name, type_ in PASSAGE_TYPES.items():
        columns[name] = pa.array([record[name] for record in records], type_)
    return columns


def _typed(column: pa.ChunkedArray, type_: str) -> Any:
    """Cast a column that Arrow inferred as text to its type in the index."""
    array = column.combine_chunks()
    if type_ == "JSON":
        return pa.ExtensionArray.from_storage(pa.json_(), array)
    return array
