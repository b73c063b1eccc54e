"""Export to Parquet, JSONL and CSV: documents with columns and vectors, in parts."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows
from slimdex.system.extras import require
from slimdex.system.progress import progress

from ..documents import Hit, json_of
from ..sources.tabular.columns import stored_names
from .selection import Selection

if TYPE_CHECKING:
    import pyarrow as pa

VECTOR = "vector"


def write_parquet(selection: Selection, path: Path) -> list[str]:
    """Write a row for each document or passage: id, title, text, the user's columns, `vector`.

    If texts are cut, `text` is the passage, followed by its number and position as in a hit, and
    `passage_id` (document id, "#", number) is unique.

    Returns notes on renamed columns. Raises `InputError` if pyarrow is missing, or Parquet does not
    support a column's type.
    """
    require("to='parquet'", "export", "pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = _names(selection)
    writer = None
    done = 0
    try:
        for rows in selection.parts():
            table = _table(selection, rows, names)
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
    return _notes(names)


def write_jsonl(selection: Selection, path: Path) -> list[str]:
    """Write one JSON object per row, with the columns of the Parquet export; return notes.

    Values without a JSON equivalent are written as text.
    """
    names = _names(selection)
    with path.open("w", encoding="utf-8") as file:
        for record, vector in _records(selection, names):
            file.write(f'{json_of(record)[:-1]}, "{VECTOR}": {vector}}}\n')
    return _notes(names)


def write_csv(selection: Selection, path: Path) -> list[str]:
    """Write the same columns as CSV: null as an empty cell, lists and objects as JSON."""
    names = _names(selection)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        for i, (record, vector) in enumerate(_records(selection, names)):
            if not i:
                table.writerow([*record, VECTOR])
            table.writerow([*map(_cell, json.loads(json_of(record)).values()), vector])
    return _notes(names)


def _names(selection: Selection) -> dict[str, str]:
    """The user's columns -> their names in the file."""
    ours = [*_fields(Hit("", 0.0, ""), 0, is_cut=selection.is_cut), VECTOR]
    return stored_names([*selection.snapshot.columns], ours)


def _notes(names: dict[str, str]) -> list[str]:
    return [f"column {old!r} is {new!r} in the file" for old, new in names.items() if old != new]


def _fields(hit: Hit, number: int, *, is_cut: bool) -> dict[str, Any]:
    """Fields of a row before the user's columns; of a passage if texts are cut."""
    fields: dict[str, Any] = {"id": hit.id, "title": hit.title, "text": hit.text}
    if not is_cut:
        return fields
    return fields | {
        "passage_id": f"{hit.id}#{number}",
        "passage": number,
        "start": hit.start,
        "end": hit.end,
        "line": hit.line,
        "last_line": hit.last_line,
        "page": hit.page,
        "headings": [*hit.headings],
        "anchor": hit.anchor or None,
    }


def _records(selection: Selection, names: dict[str, str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the values of each row, and its vector as JSON.

    A number has the fewest digits that restore the float32.
    """
    done = 0
    for rows in selection.parts():
        numbers = rows - selection.firsts(rows)
        vectors = selection.take(rows).astype(str).tolist()
        hits = selection.hits(rows)
        for hit, number, vector in zip(hits, numbers.tolist(), vectors, strict=True):
            columns = {new: hit.metadata.get(name) for name, new in names.items()}
            fields = _fields(hit, number, is_cut=selection.is_cut)
            yield fields | columns, f"[{', '.join(vector)}]"
        done += len(rows)
        progress("exporting", done, len(selection))


def _cell(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _table(selection: Selection, rows: Rows, names: dict[str, str]) -> pa.Table:
    """Build a table of some rows."""
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
    columns |= {names[name]: _typed(documents[name], type_) for name, type_ in types.items()}
    columns[VECTOR] = pa.FixedSizeListArray.from_arrays(selection.take(rows).ravel(), selection.dim)
    return pa.table(columns)


def _passages(hits: Sequence[Hit], numbers: Sequence[int]) -> dict[str, Any]:
    """Columns of passages, including their texts."""
    import pyarrow as pa

    fields = [_fields(hit, i, is_cut=True) for hit, i in zip(hits, numbers, strict=True)]
    types = dict.fromkeys(("text", "passage_id"), pa.string())
    types |= dict.fromkeys(("passage", "start", "end", "line", "last_line", "page"), pa.int64())
    types |= {"headings": pa.list_(pa.string()), "anchor": pa.string()}
    return {name: pa.array([row[name] for row in fields], kind) for name, kind in types.items()}


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
