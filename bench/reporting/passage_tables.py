"""The table of `slimdex bench passages`: both ways by every model."""

from __future__ import annotations

from collections.abc import Sequence

from ..rows import Row
from .tables import Cell, Table, number, text


def passages(rows: Sequence[Row]) -> list[Table]:
    """Pages cut off beside passages."""
    heads = ["model", "", "pages", "rows a page", "questions", "recall@10 of the page"]
    heads += ["difference", "MRR@10", "anchor in the passage", "of its section", "build s"]
    heads += ["MB at most", "MB on disk"]
    lines = [_line(row) for row in rows]
    return [Table("Python's documentation", "questions: docstrings", heads, lines)] if rows else []


def _line(row: Row) -> list[Cell]:
    delta, low, high = (row[f"recall@10_{name}"] for name in ("delta", "low", "high"))
    is_cut = row["way"] == "cut off"
    return [
        text(row["model"]),
        text(row["way"]),
        number(row["documents"], ",d"),
        number(row["rows"] / row["documents"], ".1f"),
        number(row["queries"], ",d"),
        number(row["recall@10"], ".1f"),
        Cell("", "") if is_cut else Cell(f"{delta:+.1f} ({low:+.1f} to {high:+.1f})", delta),
        number(row["mrr@10"], ".1f"),
        number(row.get("anchor_share"), ".1%"),
        number(row.get("section_share"), ".1%"),
        number(row["build_s"], ",.0f"),
        number(row["peak_bytes"] / 1e6, ",.0f"),
        number(row["disk_bytes"] / 1e6, ",.1f"),
    ]
