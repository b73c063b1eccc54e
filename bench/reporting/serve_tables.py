"""Serve tables: what callers get from a service, beside the same index in process and others."""

from __future__ import annotations

from collections.abc import Sequence

from ..rows import Row
from .tables import Cell, Table, number, text

HEADS = ["asked", "by", "callers", "requests a second", "p50 ms", "p99 ms", "MB of the process"]


def loads(rows: Sequence[Row]) -> list[Table]:
    """A table for each index, in the order of its rows."""
    names = dict.fromkeys((row["model"], row["documents"]) for row in rows)
    return [
        Table(
            f"{documents:,} documents, {model}",
            "each caller asks and waits; in process one thread does",
            HEADS,
            [_line(row) for row in rows if (row["model"], row["documents"]) == (model, documents)],
        )
        for model, documents in names
    ]


def _line(row: Row) -> list[Cell]:
    return [
        text(row["way"]),
        text(row["method"]),
        number(row["callers"], "d"),
        number(row["searches_per_s"], ",.0f"),
        number(row["p50_ms"], ".1f"),
        number(row["p99_ms"], ".1f"),
        number(row["memory_bytes"] / 1e6, ",.0f"),
    ]
