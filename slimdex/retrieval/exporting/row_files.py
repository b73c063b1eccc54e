"""Export to JSONL and CSV: documents with columns and vectors, in parts; the columns of Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slimdex.system.progress import progress

from ..documents import Hit, json_of
from ..sources.tabular.columns import storage_names
from .selection import Selection

VECTOR = "vector"


def write_jsonl(selection: Selection, path: Path) -> list[str]:
    """Write one JSON object per row, with the columns of the Parquet export; return notes.

    Values without a JSON equivalent are written as text.
    """
    names = column_names(selection)
    with path.open("w", encoding="utf-8") as file:
        for record, vector in _records(selection, names):
            # The vector is JSON already: insert it before the closing brace.
            beginning = json_of(record)[:-1]
            file.write(f'{beginning}, "{VECTOR}": {vector}}}\n')
    return renaming_notes(names)


def write_csv(selection: Selection, path: Path) -> list[str]:
    """Write the same columns as CSV: null as an empty cell, lists and objects as JSON."""
    names = column_names(selection)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        for i, (record, vector) in enumerate(_records(selection, names)):
            if not i:
                table.writerow([*record, VECTOR])
            values = json.loads(json_of(record)).values()  # types of JSON only
            table.writerow([*map(_cell, values), vector])
    return renaming_notes(names)


def column_names(selection: Selection) -> dict[str, str]:
    """Map the user's columns to their names in the file, which differ from our own."""
    ours = [*row_fields(Hit("", 0.0, ""), 0, is_cut=selection.is_cut), VECTOR]
    return storage_names([*selection.snapshot.columns], ours)


def renaming_notes(names: dict[str, str]) -> list[str]:
    """Return a note on each column that has another name in the file."""
    notes = []
    for old, new in names.items():
        if old != new:
            notes.append(f"column {old!r} is {new!r} in the file")
    return notes


def row_fields(hit: Hit, number: int, *, is_cut: bool) -> dict[str, Any]:
    """Return the fields of a row that come before the user's columns.

    If texts are cut, a row is a passage, and `number` its position in the document.
    """
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
    """Yield the values of each row by their names in the file, and its vector as JSON.

    Numbers of the vector have the fewest digits that restore the float32.
    """
    done = 0
    for rows in selection.parts():
        numbers = rows - selection.firsts(rows)
        vectors = selection.take(rows).astype(str).tolist()
        hits = selection.hits(rows)
        for hit, number, vector in zip(hits, numbers.tolist(), vectors, strict=True):
            columns = {new: hit.metadata.get(name) for name, new in names.items()}
            fields = row_fields(hit, number, is_cut=selection.is_cut)
            yield fields | columns, f"[{', '.join(vector)}]"
        done += len(rows)
        progress("exporting", done, len(selection))


def _cell(value: Any) -> str:
    """Write a JSON value for CSV: null as empty, a text as it is, all else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
