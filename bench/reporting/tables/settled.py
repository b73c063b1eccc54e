"""Tables of experiments that settled a question: their rows stay, and no command measures them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...rows import Row
from .similarity import row_name
from .table import Cell, Column, Table, change, grouped, tabulated

Rows = Sequence[Row]
DIFFERENCE = change()
SET_AND_MODEL = (Column("set", "set"), Column("model", "model"))
HELD, DEEPEST = 0.99, 400
"""Share of the exact ten that codes hold among so many candidates, and the most that were tried."""
COSINE = 0.5
"""The threshold of the papers' entailment."""

FILTERS = (
    Column("allowed", "selectivity", ".2%"),
    Column("documents", "allowed", ",.0f"),
    Column("condition", lambda row: f"`{row['condition']}`"),
    Column("way", "way"),
    Column("agreement@10", "recall@10_total", ".4f"),
    Column("condition, p50 ms", "p50_ms_condition", ".2f"),
    Column("search, p50 ms", "p50_ms_search", ".2f"),
    Column("p95 ms", "p95_ms_search", ".2f"),
    Column("always exactly", "p50_ms_exact", ".2f"),
    Column("p95 ms", "p95_ms_exact", ".2f"),
    Column("always by codes", "p50_ms_codes", ".2f"),
    Column("p95 ms", "p95_ms_codes", ".2f"),
)
STORED = (
    *SET_AND_MODEL,
    Column("documents", "documents", ",.0f"),
    Column("queries", "queries", ",.0f"),
    Column("fp16", lambda row: row["usual"]["ndcg@10"], ".2f"),
    Column("int8", "ndcg@10", ".2f"),
    Column("difference", DIFFERENCE),
    Column("the same ten", "agreement@10", ".3f"),
    Column("fp16, bytes", lambda row: row["usual"]["disk_row_bytes"], ",d"),
    Column("int8, bytes", "disk_row_bytes", ",d"),
    Column("fp16, ms", lambda row: row["usual"]["p50_ms_rescored"], ".3f"),
    Column("int8, ms", "p50_ms_rescored", ".3f"),
)
CHANGES = (
    Column("documents", "rows", ",.0f"),
    Column("add 100, ms", "add_s", ",.0f", 1e-3),
    Column("replace 100, ms", "replace_s", ",.0f", 1e-3),
    Column("delete 100, ms", "delete_s", ",.0f", 1e-3),
    Column("compact, ms", "compact_s", ",.0f", 1e-3),
)
TRAFFIC = (
    Column("threads", "searching", "d"),
    Column("while one writes", lambda row: "yes" if row["writing"] else "no"),
    Column("searches/s", "searches_per_s", ",.0f"),
    Column("p50 ms", "p50_ms", ",.1f"),
    Column("p99 ms", "p99_ms", ",.1f"),
    Column("changes", "changes", ",d"),
    Column("compactions", "compactions", ",d"),
    Column("faults", "faults", ",d"),
)
BUILDS = (
    Column("build s", "build_s", ",.0f"),
    Column("MB at most", "peak_bytes", ",.0f", 1e6),
    Column("MB on disk", "disk_bytes", ",.1f", 1e6),
)
CHANCE = (
    *SET_AND_MODEL,
    Column("rows", "rows", ",d"),
    Column("random ones reach", "chance_score", ".3f"),
    Column("noted of its own queries", "own_noted", ".1%"),
    Column("of other sets'", "others_noted", ".1%"),
    Column("of made-up words", "made_up_noted", ".1%"),
)


def filters(rows: Rows) -> list[Table]:
    """For each set and model: conditions from the most selective on, and what they cost."""
    return [
        tabulated(
            ", ".join(task),
            f"{own[0]['documents']:,} documents",
            FILTERS,
            sorted(own, key=lambda row: row["allowed"]),
        )
        for task, own in grouped(rows, "set", "model").items()
    ]


def stored(rows: Rows) -> list[Table]:
    """For each gamma: vectors kept as int8 beside float16, on every set by every model."""
    found = []
    for (gamma,), own in grouped(rows, "gamma").items():
        usual, small = ([row for row in own if row["way"] == way] for way in ("fp16", "int8"))
        pairs = [s | {"usual": u} for u, s in zip(usual, small, strict=True)]
        found.append(tabulated(f"gamma {gamma:g}", "nDCG@10", STORED, pairs))
    return found


def updates(rows: Rows) -> list[Table]:
    """What changes cost by the size of the index, and searches while there are any."""
    of = {what: own for (what,), own in grouped(rows, "what").items()}
    changes = tabulated("Changes", "", CHANGES, of["changes"])
    return [changes, tabulated("Searches", "", TRAFFIC, of["traffic"])]


def passages(rows: Rows) -> list[Table]:
    """Texts cut off beside passages."""
    of = {what: own for (what,), own in grouped(rows, "what").items()}
    pages = (
        Column("model", "model"),
        Column("", "way"),
        *_sizes("pages", "rows a page", "questions"),
        Column("recall@10 of the page", "recall@10", ".1f"),
        Column("difference", _gain("recall@10")),
        Column("MRR@10", "mrr@10", ".1f"),
        Column("anchor in the passage", "anchor_share", ".1%"),
        Column("of its section", "section_share", ".1%"),
        *BUILDS,
    )
    sets = (
        *SET_AND_MODEL,
        Column("", "way"),
        *_sizes("documents", "rows a document", "queries"),
        Column("nDCG@10", "ndcg@10", ".2f"),
        Column("difference", _gain("ndcg@10")),
        Column("recall@10", "recall@10", ".2f"),
        Column("difference", _gain("recall@10")),
        *BUILDS,
    )
    return [
        tabulated("Python's documentation", "questions: docstrings", pages, of["pages"]),
        tabulated("Sets with labels", "test queries", sets, of["set"]),
    ]


def _sizes(documents: str, rows: str, queries: str) -> tuple[Column, ...]:
    return (
        Column(documents, "documents", ",d"),
        Column(rows, lambda row: row["rows"] / row["documents"], ".1f"),
        Column(queries, "queries", ",d"),
    )


def _gain(name: str) -> Callable[[Row], Cell | None]:
    cell = change(name, "+.1f")
    return lambda row: None if row["way"] == "cut off" else cell(row)


def chance(rows: Rows) -> list[Table]:
    """How often the best hit is noted to be as if by chance."""
    return [tabulated("Best hits by chance", "shares of queries", CHANCE, rows)]


def entailment(rows: Rows) -> list[Table]:
    """For each model: accuracy of a threshold on the cosine, poolings beside each other."""
    columns = (
        Column("", row_name),
        Column("accuracy", "accuracy", ".1f"),
        Column("threshold", "threshold", ".2f"),
        Column(f"accuracy at {COSINE}", "accuracy_fixed", ".1f"),
    )
    return [
        tabulated(
            model,
            f"{own[0]['pairs']:,} pairs; {own[0]['accuracy_majority']:.1f}% are not entailed",
            columns,
            own,
        )
        for (model,), own in grouped(rows, "model").items()
    ]


def reduction(rows: Rows) -> list[Table]:
    """For each model: every reducer at a quarter of the dimensions, and none."""
    measures = {"MRR@10": "mrr@10", "nDCG@10": "ndcg@10"}
    columns = (
        Column("", "reducer"),
        Column("k", "k", "d"),
        Column("Pearson of similarities", "similarity_pearson", ".2f"),
        Column("STS Pearson", "sts_pearson", ".2f"),
        Column("STS Spearman", "sts_spearman", ".2f"),
        *(Column(f"scifact, {head}", f"scifact {name}", ".2f") for head, name in measures.items()),
    )
    return [
        tabulated(f"{model}, {own[0]['d']} dimensions", "", columns, own)
        for (model,), own in grouped(rows, "model").items()
    ]


def codes(rows: Rows) -> list[Table]:
    """For each model: the difference of nDCG@10 from exact float32 on each set, and the costs."""
    found = []
    for (model,), mine in grouped(rows, "model").items():
        sets = list(dict.fromkeys(row["set"] for row in mine))
        sized = sorted(mine, key=lambda row: row["ram_row_bytes"])
        ways = grouped(sized, "method", "kind", "k", "gamma").values()
        columns = (
            Column("codes", lambda row: f"{row['method']} ({row['kind']})"),
            Column("k", "k", "d"),
            Column("gamma", "gamma", "g"),
            Column("bytes", "ram_row_bytes", ".0f"),
            *(Column(name, name, "+.2f") for name in (*sets, "mean")),
            Column("candidates", "most"),
            Column("train s", "slowest fit_s", ".1f"),
            Column("add s", "slowest index_s", ".1f"),
            Column("times pq's p50", "times", ".1f"),
        )
        note = f"nDCG@10 less exact float32's; candidates that hold {HELD} of the exact ten"
        found.append(tabulated(model, note, columns, [_over_sets(own, sets) for own in ways]))
    return found


def _over_sets(rows: Rows, sets: Sequence[str]) -> Row:
    """A way to make codes: its difference on each set, and the largest of what it takes."""
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
