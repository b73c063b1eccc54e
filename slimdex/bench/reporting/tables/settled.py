"""Tables of settled experiments: their rows stay, and no command measures them."""

from __future__ import annotations

from collections.abc import Sequence

from ...rows import Row
from .similarity import row_name
from .table import (
    BY_TASK,
    DIFFERENCE,
    DOCUMENTS,
    SET_AND_MODEL,
    Cell,
    Column,
    Declared,
    Rows,
    by_way,
    columns_named,
    grouped,
    measured,
    of_way,
)

HELD, DEEPEST = 0.99, 400
"""Share of the exact ten among the codes' candidates, and the most candidates tried."""
COSINE = 0.5
"""Threshold of the papers' entailment."""
stored = Declared(
    "gamma {gamma:g}",
    (
        *SET_AND_MODEL,
        *columns_named(",.0f", "documents", "queries"),
        Column("fp16", of_way("fp16", "ndcg@10"), ".2f"),
        Column("int8", "ndcg@10", ".2f"),
        Column("difference", DIFFERENCE),
        Column("the same ten", "agreement@10", ".3f"),
        Column("fp16, bytes", of_way("fp16", "disk_row_bytes"), ",d"),
        Column("int8, bytes", "disk_row_bytes", ",d"),
        Column("fp16, ms", of_way("fp16", "p50_ms_rescored"), ".3f"),
        Column("int8, ms", "p50_ms_rescored", ".3f"),
    ),
    "nDCG@10",
    ("gamma",),
    lines=by_way("int8"),
)
chance = Declared(
    "Best hits by chance",
    (
        *SET_AND_MODEL,
        Column("rows", "rows", ",d"),
        Column("score of random rows", "chance_score", ".3f"),
        Column("its own queries with a note", "own_noted", ".1%"),
        Column("other sets' queries", "others_noted", ".1%"),
        Column("made-up words", "made_up_noted", ".1%"),
    ),
    "shares of queries",
)
entailment = Declared(
    "{model}",
    (
        Column("", row_name),
        Column("accuracy", "accuracy", ".1f"),
        Column("threshold", "threshold", ".2f"),
        Column(f"accuracy at {COSINE}", "accuracy_fixed", ".1f"),
    ),
    "{pairs:,} pairs; {accuracy_majority:.1f}% are not entailed",
    ("model",),
)
MEASURES = {"MRR@10": "mrr@10", "nDCG@10": "ndcg@10"}
reduction = Declared(
    "{model}, {d} dimensions",
    (
        Column("", "reducer"),
        Column("k", "k", "d"),
        Column("Pearson of similarities", "similarity_pearson", ".2f"),
        Column("STS Pearson", "sts_pearson", ".2f"),
        Column("STS Spearman", "sts_spearman", ".2f"),
        *(Column(f"scifact, {head}", f"scifact {name}", ".2f") for head, name in MEASURES.items()),
    ),
    by=("model",),
)


def _cold_columns(rows: Rows) -> Sequence[Column]:
    told = measured(rows)
    names = dict.fromkeys(n for row in told for n in row if n.startswith("cached_"))
    held = [name for name in names if any(row.get(name) for row in told[1:])]
    return (
        Column("index's files", "way"),
        Column("memory limit, MB", "limit_bytes", ",.0f", 1e6),
        Column("encoding, p50 ms", "p50_ms_encode", ",.2f"),
        Column("text to documents, p50 ms", "p50_ms_total", ",.2f"),
        Column("p95 ms", "p95_ms_total", ",.2f"),
        Column("p99 ms", "p99_ms_total", ",.2f"),
        Column("read from disk, KB a query", "read_query_bytes", ",.0f", 1e3),
        *(Column(f"{n.split('_')[1]} in memory, KB", n, ",.0f", 1e3) for n in held),
        Column("process, MB", "memory_bytes", ",.0f", 1e6),
        Column("and of files", "memory_files_bytes", ",.0f", 1e6),
    )


cold = Declared("{set}, {model}", _cold_columns, DOCUMENTS, BY_TASK)


def _code_columns(rows: Rows) -> Sequence[Column]:
    return (
        Column("codes", lambda row: f"{row['method']} ({row['kind']})"),
        Column("k", "k", "d"),
        Column("gamma", "gamma", "g"),
        Column("bytes", "ram_row_bytes", ".0f"),
        *(
            Column(name, name, "+.2f")
            for name in (*dict.fromkeys(row["set"] for row in rows), "mean")
        ),
        Column("candidates", "most"),
        Column("train s", "slowest fit_s", ".1f"),
        Column("add s", "slowest index_s", ".1f"),
        Column("times pq's p50", "times", ".1f"),
    )


def _code_lines(rows: Rows) -> list[Row]:
    """A line for each way of coding, over all sets of the rows."""
    sets = list(dict.fromkeys(row["set"] for row in rows))
    sized = sorted(rows, key=lambda row: row["ram_row_bytes"])
    ways = grouped(sized, "method", "kind", "k", "gamma").values()
    return [_over_sets(own, sets) for own in ways]


def _over_sets(rows: Rows, sets: Sequence[str]) -> Row:
    """A way of coding: its difference on each set, and its largest costs."""
    deltas = {row["set"]: row["ndcg@10_delta"] for row in rows}
    mean = sum(deltas[name] for name in sets) / len(sets) if len(deltas) == len(sets) else None
    needed = [row["needed"] for row in rows]
    most = 1e9 if None in needed else float(max(needed))
    slower = sorted(row["p50_ms_one"] / row["p50_ms_pq"] for row in rows if "p50_ms_pq" in row)
    seconds = {
        f"slowest {name}": max((row[name] for row in rows if name in row), default=None)
        for name in ("fit_s", "index_s")
    }
    costs = {
        "mean": mean,
        "most": Cell(f"{DEEPEST} and more" if most > DEEPEST else f"{most:.0f}", most),
        "times": slower[len(slower) // 2] if slower else None,
    }
    return rows[0] | deltas | costs | seconds


codes = Declared(
    "{model}",
    _code_columns,
    f"nDCG@10 less exact float32's; candidates that hold {HELD} of the exact ten",
    ("model",),
    lines=_code_lines,
)
