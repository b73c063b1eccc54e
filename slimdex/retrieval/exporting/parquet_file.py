"""Export to Parquet: documents with columns and vectors, a row group at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import progress

from ..documents import Hit
from ..extras import require
from .selection import Selection

if TYPE_CHECKING:
    import pyarrow as pa

VECTOR = "vector"
PASSAGE_ID = "passage_id"


def write(selection: Selection, path: Path) -> list[str]:
    """Write a row for each document or passage: id, title, text, the user's columns, `vector`.

    If texts are cut, `text` is the passage, followed by its number and position as in a hit, and
    `passage_id` (document id, "#", number) is unique.

    Returns
    -------
    Notes on columns that are renamed in the file.

    Raises
    ------
    InputError
        If pyarrow is missing, or Parquet does not support a column's type.
    """
    require("to='parquet'", "export", "pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer, done = None, 0
    try:
        for rows in selection.parts():
            table, notes = _table(selection, rows)
            if writer is None:
                coded = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
                writer = pq.ParquetWriter(path, table.schema, use_dictionary=coded)
            writer.write_table(table, row_group_size=len(table))
            done += len(rows)
            progress("exporting", done, len(selection))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InputError(f"to='parquet': {error}; expected types that Parquet supports") from error
    finally:
        if writer is not None:
            writer.close()
    return notes


def _table(selection: Selection, rows: Rows) -> tuple[pa.Table, list[str]]:
    """Build a table of some rows, and notes."""
    import pyarrow as pa

    firsts, place = np.unique(selection.firsts(rows), return_inverse=True)
    documents = selection.snapshot.arrow(firsts)
    if selection.is_cut:  # repeating the whole text per passage would be too large
        documents = documents.drop_columns(["text"]).take(pa.array(place))
        numbers = rows - selection.firsts(rows)
        texts = _passages(selection.hits(rows), numbers.tolist())
    else:
        texts = {"text": documents["text"]}
    columns = {"id": documents["id"], "title": documents["title"]} | texts
    types = selection.snapshot.columns
    names = kept_names([*types], [*columns, VECTOR])
    columns |= {names[own]: _typed(documents[own], type_) for own, type_ in types.items()}
    columns[VECTOR] = pa.FixedSizeListArray.from_arrays(selection.take(rows).ravel(), selection.dim)
    notes = [f"column {own!r} is {new!r} in the file" for own, new in names.items() if own != new]
    return pa.table(columns), notes


def _passages(hits: Sequence[Hit], numbers: Sequence[int]) -> dict[str, Any]:
    """Columns of passages, including their texts."""
    import pyarrow as pa

    named = [f"{hit.id}#{number}" for hit, number in zip(hits, numbers, strict=True)]
    return {
        "text": pa.array([hit.text for hit in hits], pa.string()),
        PASSAGE_ID: pa.array(named, pa.string()),
        "passage": pa.array(numbers, pa.int64()),
        "start": pa.array([hit.start for hit in hits], pa.int64()),
        "end": pa.array([hit.end for hit in hits], pa.int64()),
        "line": pa.array([hit.line for hit in hits], pa.int64()),
        "page": pa.array([hit.page for hit in hits], pa.int64()),
        "headings": pa.array([[*hit.headings] for hit in hits], pa.list_(pa.string())),
        "anchor": pa.array([hit.anchor or None for hit in hits], pa.string()),
    }


def _typed(column: pa.ChunkedArray, type_: str) -> Any:
    """Cast a column that Arrow inferred as text to its type in the index."""
    import pyarrow as pa

    whole = column.combine_chunks()
    if type_ == "JSON":
        return pa.ExtensionArray.from_storage(pa.json_(), whole)
    if type_ == "UUID":
        values = [None if text is None else UUID(text).bytes for text in whole.to_pylist()]
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
    return whole


def kept_names(columns: Sequence[str], ours: Sequence[str]) -> dict[str, str]:
    """Map the user's columns to unique names, with "_" appended where they clash with ours.

    >>> kept_names(["year", "Vector"], ["id", "vector"])
    {'year': 'year', 'Vector': 'Vector_'}
    """
    taken = {*ours, *(name.lower() for name in columns if name.lower() not in ours)}
    kept = {}
    for column in columns:
        name = column
        while column.lower() in ours and name.lower() in taken:
            name += "_"
        kept[column] = name
        taken.add(name.lower())
    return kept
