"""Tables of `slimdex bench migrate`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ...rows import Row
from .table import Cell, Column, Declared, Rows, change, grouped, together

SHOWN = ("old ndcg@10", "new ndcg@10", "ndcg@10", "aecp ndcg@10")
PAIR = ("old", "new")


def _by_pair(rows: Rows) -> list[Row]:
    """A row for each pair of encoders with means over the sets, by share of the documents."""
    return [own[0] | {"shares": _means(own)} for own in grouped(rows, *PAIR).values()]


def _means(rows: Rows) -> dict[float, dict[str, float]]:
    return {
        share: {
            name: float(np.mean([row[name] for row in own]))
            for name in SHOWN
            if all(name in row for row in own)
        }
        for (share,), own in grouped(rows, "share").items()
    }


def _columns(rows: Rows) -> Sequence[Column]:
    shares = sorted({row["share"] for row in rows})
    compared = [row["share"] for row in rows if "aecp ndcg@10" in row][:1]
    return (
        Column("documents by", "old"),
        Column("queries by", "new"),
        Column("old alone", lambda row: row["shares"][shares[-1]]["old ndcg@10"], ".2f"),
        Column("new alone", lambda row: row["shares"][shares[-1]]["new ndcg@10"], ".2f"),
        *(_mapped(share, "ndcg@10", f"map of {share:.0%}") for share in shares),
        *(_mapped(share, "aecp ndcg@10", f"aecp's of {share:.0%}") for share in compared),
        Column("retained of old", lambda row: _retained(row["shares"][shares[-1]]), ".0%"),
    )


def _mapped(share: float, name: str, head: str) -> Column:
    return Column(head, lambda row: row["shares"].get(share, {}).get(name), ".2f")


def _retained(means: dict[str, float]) -> float:
    return means["ndcg@10"] / means["old ndcg@10"]


def _too_high(row: Row) -> Cell:
    share = row["too_high"] / row["trials"]
    return Cell(f"{share:.1%}", share)


migration = together(
    Declared(
        "Mean of the sets",
        _columns,
        lambda rows: f"nDCG@10, mean of {len({row['set'] for row in rows})} sets",
        lines=_by_pair,
    ),
    Declared(
        "{set}",
        _columns,
        "{documents:,} documents, {queries:,} queries; nDCG@10",
        ("set",),
        lines=_by_pair,
    ),
    Declared(
        "Coverage of the bound",
        (
            Column("set", "set"),
            Column("maps", "maps", ",d"),
            Column("trials", "trials", ",d"),
            Column("bound too high", _too_high),
            Column("at most, of a map", lambda row: row["worst"], ".1%"),
        ),
        "200 queries each, 95%",
        lines=lambda rows: [_coverage(own) for own in grouped(rows, "set").values()],
    ),
)


def _by_rule(rows: Rows) -> list[Row]:
    """The row half-way of each pair of encoders and rule, with nDCG@10 by share."""
    return [
        own[len(own) // 2] | {"shares": {row["share"]: row["ndcg@10"] for row in own}}
        for own in grouped(rows, *PAIR, "way").values()
    ]


def _moving_columns(rows: Rows) -> Sequence[Column]:
    shares = sorted({row["share"] for row in rows})
    return (
        Column("from", "old"),
        Column("to", "new"),
        Column("scores", "way"),
        *(Column(f"{share:.0%}", partial(_at, share), ".2f") for share in shares),
        Column(f"{shares[len(shares) // 2]:.0%} - {shares[0]:.0%}", change()),
    )


def _at(share: float, row: Row) -> float | None:
    found: float | None = row["shares"].get(share)
    return found


moving = Declared(
    "{set}",
    _moving_columns,
    "nDCG@10 by the share of {documents:,} documents that has moved; {queries:,} queries",
    ("set",),
    lines=_by_rule,
)


def _coverage(rows: Rows) -> Row:
    """Sum of the trials of all maps of a set."""
    return rows[0] | {
        "maps": len(rows),
        "trials": sum(row["trials"] for row in rows),
        "too_high": sum(row["too_high"] for row in rows),
        "worst": max(row["too_high"] / row["trials"] for row in rows),
    }
