"""The tables of `slimdex bench passages` (both ways by every model) and `slimdex bench chance`."""

from __future__ import annotations

from collections.abc import Sequence

from ..rows import Row
from .tables import Cell, Table, number, text

COSTS = ["build s", "MB at most", "MB on disk"]


def passages(rows: Sequence[Row]) -> list[Table]:
    """Texts cut off beside passages."""
    pages = [row for row in rows if row["what"] == "pages"]
    sets = [row for row in rows if row["what"] == "set"]
    heads = ["model", "", "pages", "rows a page", "questions", "recall@10 of the page"]
    heads += ["difference", "MRR@10", "anchor in the passage", "of its section", *COSTS]
    found = [
        Table("Python's documentation", "questions: docstrings", heads, list(map(_page, pages)))
    ]
    heads = ["set", "model", "", "documents", "rows a document", "queries", "nDCG@10"]
    heads += ["difference", "recall@10", "difference", *COSTS]
    found.append(Table("Sets with labels", "test queries", heads, list(map(_set, sets))))
    return [table for table in found if table.rows]


def chance(rows: Sequence[Row]) -> list[Table]:
    """How often the best hit is noted to be as if by chance."""
    heads = ["set", "model", "rows", "random ones reach", "noted of its own queries"]
    heads += ["of other sets'", "of made-up words"]
    lines = [
        [
            text(row["set"]),
            text(row["model"]),
            number(row["rows"], ",d"),
            number(row["chance_score"], ".3f"),
            *(number(row[f"{name}_noted"], ".1%") for name in ("own", "others", "made_up")),
        ]
        for row in rows
    ]
    return [Table("Best hits by chance", "shares of queries", heads, lines)] if lines else []


def _page(row: Row) -> list[Cell]:
    return [
        text(row["model"]),
        text(row["way"]),
        *_sizes(row),
        number(row["recall@10"], ".1f"),
        _difference(row, "recall@10"),
        number(row["mrr@10"], ".1f"),
        number(row.get("anchor_share"), ".1%"),
        number(row.get("section_share"), ".1%"),
        *_costs(row),
    ]


def _set(row: Row) -> list[Cell]:
    return [
        text(row["set"]),
        text(row["model"]),
        text(row["way"]),
        *_sizes(row),
        number(row["ndcg@10"], ".2f"),
        _difference(row, "ndcg@10"),
        number(row["recall@10"], ".2f"),
        _difference(row, "recall@10"),
        *_costs(row),
    ]


def _sizes(row: Row) -> list[Cell]:
    return [
        number(row["documents"], ",d"),
        number(row["rows"] / row["documents"], ".1f"),
        number(row["queries"], ",d"),
    ]


def _difference(row: Row, name: str) -> Cell:
    if row["way"] == "cut off":
        return Cell("", "")
    delta, low, high = (row[f"{name}_{part}"] for part in ("delta", "low", "high"))
    return Cell(f"{delta:+.1f} ({low:+.1f} to {high:+.1f})", delta)


def _costs(row: Row) -> list[Cell]:
    return [
        number(row["build_s"], ",.0f"),
        number(row["peak_bytes"] / 1e6, ",.0f"),
        number(row["disk_bytes"] / 1e6, ",.1f"),
    ]
