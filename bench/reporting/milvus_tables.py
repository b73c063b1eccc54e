"""Milvus tables: a pushed index beside the local one, and beside Milvus' own kinds."""

from __future__ import annotations

from collections.abc import Sequence

from ..rows import Row
from .tables import Cell, Table, number, text

HEADS = ["where", "kind", "bytes a row", "nDCG@10", "agreement@10", "p50 ms"]


def served(rows: Sequence[Row]) -> list[Table]:
    """A table for each server, set and model: a line for each way of searching."""
    names = dict.fromkeys((row["versions"]["milvus"], row["set"], row["model"]) for row in rows)
    return [_table(name, [row for row in rows if _name(row) == name]) for name in names]


def _name(row: Row) -> tuple[str, str, str]:
    return row["versions"]["milvus"], row["set"], row["model"]


def _table(name: tuple[str, str, str], rows: Sequence[Row]) -> Table:
    version, set_, model = name
    whole = [row for row in rows if "condition" not in row]
    shares = sorted({row["share"] for row in rows if "condition" in row})
    server = version.replace("milvus_lite-", "Lite ")
    return Table(
        f"Milvus {server}: {set_}, {model}",
        f"{whole[0]['documents']:,} documents; agreement with brute force in each way's own "
        "metric, and the worst under conditions that hold for a share of the documents",
        [*HEADS, *(f"agreement, {share:.0%}" for share in shares)],
        [_line(row, rows, shares) for row in whole],
    )


def _line(row: Row, rows: Sequence[Row], shares: Sequence[float]) -> list[Cell]:
    return [
        text(row["method"]),
        text(row["kind"]),
        number(row["ram_row_bytes"], ",.0f"),
        number(row["ndcg@10"], ".2f"),
        number(row["recall@10_total"], ".4f"),
        number(row["p50_ms"], ".2f"),
        *(number(_under(share, row, rows), ".4f") for share in shares),
    ]


def _under(share: float, row: Row, rows: Sequence[Row]) -> float | None:
    """The worst agreement of the same way under conditions that hold for that share."""
    found = [
        own["recall@10_total"]
        for own in rows
        if own["method"] == row["method"] and own.get("share") == share
    ]
    return min(found, default=None)
