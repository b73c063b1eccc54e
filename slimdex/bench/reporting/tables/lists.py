"""Tables of inverted lists."""

from __future__ import annotations

from ...rows import Row
from ..findings import FASTEST_AT
from .table import Column, Declared, Rows, columns_named, grouped, together

SIZE = ("set", "model", "documents", "queries_of")
COLUMNS = (
    Column("", "method"),
    *columns_named("d", "k"),
    *columns_named(",d", "lists"),
    Column("of these scanned", lambda row: row["lists_probed"] or None, ",d"),
    *columns_named(",d", "candidates"),
    Column("agreement", "agreement@10", ".4f"),
    Column("p50 ms", "p50_ms", ".2f"),
    Column("p99 ms", "p99_ms", ".2f"),
    Column("bytes a vector", lambda row: row["ram_bytes"] / row["documents"], ".1f"),
    Column("build s", "build_s", ",.0f"),
)


def fastest_of(rows: Rows) -> Row:
    """Fastest row at agreement `FASTEST_AT`, or the one of the highest agreement."""
    reached = [row for row in rows if row["agreement@10"] >= FASTEST_AT]
    if reached:
        return min(reached, key=lambda row: float(row["p50_ms"]))
    return max(rows, key=lambda row: float(row["agreement@10"]))


def _fastest(rows: Rows) -> list[Row]:
    """The fastest row of each kind of index."""
    return [fastest_of(own) for own in grouped(rows, "method").values()]


lists = together(
    Declared(
        "{documents:,} documents, queries of {queries_of}",
        COLUMNS,
        f"the fastest at agreement {FASTEST_AT:g}, or the best that it reaches",
        SIZE,
        lines=_fastest,
    ),
    Declared("{documents:,} documents, queries of {queries_of}, all settings", COLUMNS, by=SIZE),
)
