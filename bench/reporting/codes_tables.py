"""Tables of `slimdex bench codes`: every way to make codes, on every set, at the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

from ..rows import Row
from .tables import Cell, Table, number, text


def codes(rows: Sequence[Row]) -> list[Table]:
    """For each model: the difference of nDCG@10 from exact float32 on each set, and the costs."""
    found = []
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = [row for row in rows if row["model"] == model]
        sets = list(dict.fromkeys(row["set"] for row in mine))
        ways = dict.fromkeys(map(_way, sorted(mine, key=lambda row: row["ram_row_bytes"])))
        heads = ["codes", "k", "gamma", "bytes", *sets, "mean", "candidates", "train s", "add s"]
        lines = [_line([row for row in mine if _way(row) == way], sets) for way in ways]
        note = "nDCG@10 less exact float32's; candidates that hold 0.99 of the exact ten"
        found.append(Table(model, note, [*heads, "times pq's p50"], lines))
    return found


def codes_line(rows: Sequence[Row]) -> str:
    """`pq` and `pq-l2` at the same bytes on one set."""
    usual, ours = (next(r for r in rows if r["method"] == name) for name in ("pq", "pq-l2"))
    return (
        f"{ours['set']}: by codes of {ours['ram_row_bytes']:.0f} bytes nDCG@10 is "
        f"{ours['ndcg@10_delta']:+.2f} from exact by pq-l2, {usual['ndcg@10_delta']:+.2f} by pq"
    )


def _way(row: Row) -> tuple[str, str, int, float]:
    return row["method"], row["kind"], row["k"], row["gamma"]


def _line(rows: Sequence[Row], sets: Sequence[str]) -> list[Cell]:
    first, by_set = rows[0], {row["set"]: row for row in rows}
    deltas = [by_set[name]["ndcg@10_delta"] if name in by_set else None for name in sets]
    whole = [delta for delta in deltas if delta is not None]
    mean = sum(whole) / len(whole) if len(whole) == len(sets) else None
    needed = [row["needed"] for row in rows]
    most = "400 and more" if None in needed else f"{max(needed)}"
    slower = [row["p50_ms_one"] / row["p50_ms_pq"] for row in rows if "p50_ms_pq" in row]
    seconds = [[row[name] for row in rows if name in row] for name in ("fit_s", "index_s")]
    return [
        text(f"{first['method']} ({first['kind']})"),
        number(first["k"], "d"),
        number(first["gamma"], "g"),
        number(first["ram_row_bytes"], ".0f"),
        *(number(delta, "+.2f") for delta in (*deltas, mean)),
        Cell(most, float(most) if most.isdecimal() else 1e9),
        *(number(max(its, default=None), ".1f") for its in seconds),
        number(sorted(slower)[len(slower) // 2] if slower else None, ".1f"),
    ]
