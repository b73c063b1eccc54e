"""Export to JSONL and CSV: documents with columns and vectors as text."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.execution.progress import progress

from ..documents import Hit, json_of
from .parquet_file import PASSAGE_ID, VECTOR, kept_names
from .selection import Selection


def write_jsonl(selection: Selection, path: Path) -> list[str]:
    """Write one JSON object per row, with the columns of the Parquet export; return notes.

    Values without a JSON equivalent are written as text.
    """
    rows = _Rows(selection)
    with path.open("w", encoding="utf-8") as file:
        for record, vector in rows.records():
            file.write(f'{json_of(record)[:-1]}, "{VECTOR}": {vector}}}\n')
    return rows.notes


def write_csv(selection: Selection, path: Path) -> list[str]:
    """Write the same columns as CSV: null as an empty cell, lists and objects as JSON."""
    rows = _Rows(selection)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        for i, (record, vector) in enumerate(rows.records()):
            if not i:
                table.writerow([*record, VECTOR])
            table.writerow([*map(_cell, json.loads(json_of(record)).values()), vector])
    return rows.notes


class _Rows:
    """Records of rows, with the user's columns under their names in the file."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        ours = [*self._record(Hit("", 0.0, ""), 0), VECTOR]
        self._names = kept_names([*selection.snapshot.columns], ours)
        renamed = ((own, new) for own, new in self._names.items() if own != new)
        self.notes = [f"column {own!r} is {new!r} in the file" for own, new in renamed]

    def records(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield the values of each row, and its vector as JSON."""
        done = 0
        for rows in self._selection.parts():
            numbers = rows - self._selection.firsts(rows)
            texts = _as_texts(self._selection.take(rows))
            hits = self._selection.hits(rows)
            for hit, number, vector in zip(hits, numbers.tolist(), texts, strict=True):
                own = {new: hit.metadata.get(name) for name, new in self._names.items()}
                yield self._record(hit, number) | own, vector
            done += len(rows)
            progress("exporting", done, len(self._selection))

    def _record(self, hit: Hit, number: int) -> dict[str, Any]:
        record: dict[str, Any] = {"id": hit.id, "title": hit.title, "text": hit.text}
        if not self._selection.is_cut:
            return record
        return record | {
            PASSAGE_ID: f"{hit.id}#{number}",
            "passage": number,
            "start": hit.start,
            "end": hit.end,
            "line": hit.line,
            "page": hit.page,
            "headings": [*hit.headings],
            "anchor": hit.anchor or None,
        }


def _as_texts(X: Matrix) -> Iterator[str]:
    """Format vectors (n, dim) as JSON, with the fewest digits that restore the float32."""
    return (f"[{', '.join(row)}]" for row in X.astype(str).tolist())


def _cell(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
