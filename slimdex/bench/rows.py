"""Rows of results as lines of JSON, appended as they are measured."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slimdex.indexes.errors import InputError
from slimdex.indexes.json_text import parsed
from slimdex.retrieval.atomic_files import publish

from .columns import check_row

Row = dict[str, Any]
FOLDER = Path("slimdex/bench/results")
"""Rows of this repository, from which README is made; not part of wheels."""


def key_of(facts: Mapping[str, Any]) -> str:
    """Short name for everything that identifies a measurement."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class ResultsFile:
    """Rows by key; each row is on disk before the next one is measured."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        if path.exists():
            text = path.read_text(encoding="utf-8", errors="replace")
            whole = text[: text.rfind("\n") + 1]  # a kill may have cut the last line short
            if whole != text:
                path.write_text(whole, encoding="utf-8")
            self.rows = {row["key"]: row for row in _parsed(path, whole)}

    def append(self, row: Row) -> None:
        """Add a row, which has a `key`, with the time; numbers are rounded to six digits."""
        row = row | _moment()
        check_row(row)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())
        self.rows[row["key"]] = row

    def replace(self, rows: Sequence[Row]) -> None:
        """Replace all rows; new ones get the time, as in `append`."""
        rows = [row if "date" in row else row | _moment() for row in rows]
        for row in rows:
            check_row(row)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        publish(self.path, lambda path: _write(path, rows))
        self.rows = {row["key"]: row for row in rows}


def read_rows(folder: Path, experiment: str, *, needed: bool = True) -> list[Row]:
    """Read all rows of an experiment, `retrieval` or `peers`, from the files of a folder.

    Raises `InputError` if there are none and `needed` is true.
    """
    files = sorted(folder.glob(f"{experiment}*.jsonl"), key=lambda file: file.stem)
    rows = [row for file in files for row in ResultsFile(file).rows.values()]
    if needed and not rows:
        raise InputError(
            f"{folder}: no rows of {experiment}; expected {experiment}*.jsonl from `slimdex bench`"
        )
    return rows


def _moment() -> dict[str, Any]:
    """Date and time (UTC)."""
    now = datetime.now(UTC)
    return {"date": now.strftime("%Y-%m-%d"), "time": now.strftime("%H:%M")}


def _write(path: Path, rows: Sequence[Row]) -> None:
    path.write_text("".join(map(_line, rows)), encoding="utf-8")


def _line(row: Row) -> str:
    return json.dumps(_rounded(row), ensure_ascii=False) + "\n"


def _parsed(path: Path, text: str) -> Iterable[Row]:
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            row = parsed(line)
            row["key"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}, line {number}: no row of results ({error})") from error
        yield row


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return value
