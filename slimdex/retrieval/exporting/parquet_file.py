"""Export to Parquet, by pyarrow of the extra `export`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows
from slimdex.system.progress import progress

from ..documents import Hit
from .row_files import VECTOR, column_names, renaming_notes, row_fields
from .selection import Selection


def write_parquet(selection: Selection, path: Path) -> list[str]:
    """Write a row for each document or passage: id, title, text, the user's columns, `vector`.

    If texts are cut, `text` is the passage, followed by its number and position as in a hit, and
    `passage_id` (document id, "#", number) is unique.

    Returns notes on renamed columns. Raises `InputError` if Parquet does not support a column's
    type.
    """
    names = column_names(selection)
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
    return renaming_notes(names)


def _table(selection: Selection, rows: Rows, names: dict[str, str]) -> pa.Table:
    """Build a table of some rows; `names` are those of the user's columns in the file."""
    # Each document is read once; `document_of_row` is its position among them.
    firsts, document_of_row = np.unique(selection.firsts(rows), return_inverse=True)
    documents = selection.snapshot.arrow(firsts)
    if selection.is_cut:  # repeating the whole text per passage would be too large
        documents = documents.drop_columns(["text"]).take(pa.array(document_of_row))
        numbers = rows - selection.firsts(rows)
        texts = _passages(selection.hits(rows), numbers.tolist())
    else:
        texts = {"text": documents["text"]}
    columns = {"id": documents["id"], "title": documents["title"]} | texts
    for name, type_ in selection.snapshot.columns.items():
        columns[names[name]] = _typed(documents[name], type_)
    columns[VECTOR] = pa.FixedSizeListArray.from_arrays(selection.take(rows).ravel(), selection.dim)
    return pa.table(columns)


def _passages(hits: Sequence[Hit], numbers: Sequence[int]) -> dict[str, Any]:
    """Columns of passages, including their texts."""
    rows = []
    for hit, number in zip(hits, numbers, strict=True):
        rows.append(row_fields(hit, number, is_cut=True))
    types = dict.fromkeys(("text", "passage_id"), pa.string())
    types |= dict.fromkeys(("passage", "start", "end", "line", "last_line", "page"), pa.int64())
    types |= {"headings": pa.list_(pa.string()), "anchor": pa.string()}
    columns = {}
    for name, type_ in types.items():
        columns[name] = pa.array([row[name] for row in rows], type_)
    return columns


def _typed(column: pa.ChunkedArray, type_: str) -> Any:
    """Cast a column that Arrow inferred as text to its type in the index."""
    array = column.combine_chunks()
    if type_ == "JSON":
        return pa.ExtensionArray.from_storage(pa.json_(), array)
    if type_ == "UUID":
        values = []
        for text in array.to_pylist():
            values.append(None if text is None else UUID(text).bytes)
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
    return array
