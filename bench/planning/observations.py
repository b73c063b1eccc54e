"""Observations: what the rows of the benches say of bytes and seconds.

Bytes are those of any machine; seconds are of the processors that `slimdex bench sizes` ran on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..rows import Row, read_rows
from .laws import Law, Observation
from .workload import PLANNED, Workload

CODE = ("kept", "ids")
FIXED = ("once", "reducer", "metric", "kept", "centroids", "lists")
DISK = tuple(f"disk_{part}_bytes" for part in ("vectors", "norms", "codes", "catalog", "documents"))
"""Columns of what an index takes on disk."""
LEAST_ROWS = 50_000
"""Of an index that others are told by: what smaller ones take is mostly done once."""


class Rows:
    """The rows of a folder, by what they tell.

    Raises
    ------
    InputError
        If rows of sizes are missing.
    """

    def __init__(self, folder: Path) -> None:
        self.sizes = [row for row in read_rows(folder, "sizes") if row["kind"] in PLANNED]
        self.retrieval = [
            row
            for row in read_rows(folder, "retrieval", needed=False)
            if row.get("method") == "slimdex" and row["kind"] in PLANNED and row["candidates"]
        ]
        self.stored = read_rows(folder, "stored", needed=False)
        self.tune = read_rows(folder, "tune", needed=False)


def sized(row: Row) -> Workload:
    """The workload that a row of sizes or retrieval was measured at."""
    count = count_of(row)
    text = row.get("text_bytes", 0) / count
    return Workload(count, row["dim"], row["k"], row["kind"], 0, text_bytes=text)


def of_column(rows: Iterable[Row], column: str, terms: tuple[str, ...]) -> list[Observation]:
    """A column as it stands."""
    return [sized(row).seen(row[column], terms) for row in rows]


def large(rows: Iterable[Row]) -> list[Row]:
    """Rows of indexes that are not small."""
    return [row for row in rows if count_of(row) >= LEAST_ROWS]


def count_of(row: Row) -> int:
    """Rows of the index that was measured."""
    return int(row["rows"] if "rows" in row else row["documents"])


def timed_on(rows: Sequence[Row]) -> str:
    """The sizes of measured indexes, and the processors."""
    counts, processors = [*map(count_of, rows)], dict.fromkeys(row["processor"] for row in rows)
    return f"{min(counts):,} to {max(counts):,} vectors on {' and '.join(processors)}"


def of_indexes(rows: Iterable[Row], code: Law, fixed: Law) -> list[Observation]:
    """Indexes in memory, by what the laws of their two parts say."""
    found = []
    for row in rows:
        workload = sized(row)
        terms = workload.terms()
        parts = {"parts": code(terms) * workload.documents + fixed(terms)}
        found.append(Observation(index_bytes(row), parts))
    return found


def index_bytes(row: Row) -> float:
    """Codes, reducer and metric of a measured index."""
    return float(count_of(row) * row["ram_row_bytes"] + row["ram_fixed_bytes"])


def of_vectors(rows: Iterable[Row], stored: str) -> list[Observation]:
    """Bytes of a vector on disk."""
    return [
        Observation(row["disk_row_bytes"], {"dim": float(row["dim"])})
        for row in rows
        if row["way"] == stored
    ]
