"""Size tables: what indexes take by their rows."""

from __future__ import annotations

from collections.abc import Sequence

from ..planning.observations import DISK
from ..rows import Row
from .tables import Cell, Table, number, text


def sizes(rows: Sequence[Row]) -> list[Table]:
    """Each index that was measured, smaller ones first."""
    heads = ["rows", "dim", "kind", "bytes a row", "process grew, MB", "disk, MB", "candidates"]
    heads += ["agreement@10", "to rows, ms", "to documents, ms", "fit, s", "code, s", "write, s"]
    lines = [_line(row) for row in sorted(rows, key=lambda row: (row["rows"], row["dim"]))]
    return [Table("Sizes", "one thread; seconds of processor time", heads, lines)] if lines else []


def _line(row: Row) -> list[Cell]:
    return [
        number(row["rows"], ",d"),
        number(row["dim"], "d"),
        text(row["kind"]),
        number(row["ram_row_bytes"], ".0f"),
        number(row["memory_bytes"] / 1e6, ",.0f"),
        number(sum(row[name] for name in DISK) / 1e6, ",.0f"),
        number(row["candidates"], ",d"),
        number(row["recall@10_total"], ".3f"),
        number(row["p50_ms_search_cpu"], ".2f"),
        number(row["p50_ms_hits_cpu"], ".2f"),
        *(number(row[f"{part}_cpu_s"], ",.1f") for part in ("fit", "index", "write")),
    ]
