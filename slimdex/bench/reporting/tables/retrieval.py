"""Tables of quality, memory and time: the headline, codes alone, peers, and every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...engines.engine import VECTORS
from ...engines.registry import names_of
from ...rows import Row
from ..findings import (
    CODES,
    LOWER,
    SLIMDEX,
    codes_at,
    default_row,
    fastest_at,
    is_told,
    label,
    mean_by_method,
    of_task,
    resident_bytes,
    shared_sets,
    small_row,
    tasks,
    uncompressed_row,
)
from .table import (
    DIFFERENCE,
    SET_AND_MODEL,
    Cell,
    Column,
    Table,
    columns_named,
    failures,
    measured,
    of_way,
    tabulated,
)

HEADLINE = (
    *SET_AND_MODEL,
    *columns_named(",.0f", "documents", "queries"),
    Column("float32", "ndcg@10", ".2f"),
    Column("1/64", of_way("usual", "ndcg@10"), ".2f"),
    Column("difference", of_way("usual", DIFFERENCE)),
    Column("1/128", of_way("small", "ndcg@10"), ".2f"),
    Column("difference", of_way("small", DIFFERENCE)),
    Column("its candidates", of_way("small", "effort"), ",.0f"),
)
CODES_ALONE = (
    Column("of float32", lambda row: Cell(f"1/{row['compression']:.0f}", row["compression"])),
    Column("codes", label),
    Column("bytes", "ram_row_bytes", ",.0f"),
    Column("mean difference", "ndcg@10_delta", "+.2f"),
    Column("worst set", "worst_delta", "+.2f"),
)
BESIDE_PEERS = (
    Column("", "method"),
    Column("effort", "effort", ".0f"),
    Column("agreement", "agreement@10", ".3f"),
    Column("nDCG@10", "ndcg@10", ".2f"),
    Column("p50 ms", "p50_ms_one", ".2f"),
    Column("p99 ms", "p99_ms_one", ".2f"),
    *(Column(f"p50 ms at {least}", f"p50_ms_at_{least}", ".2f") for least in LOWER),
    Column("batch, queries/s", "queries_per_s", ",.0f"),
    Column("build s", "build_s", ".2f"),
    Column("bytes a vector", lambda row: resident_bytes(row) if is_told(row) else None, ",.0f"),
    Column("process grew", "process_row_bytes", ",.0f"),
    Column("and mapped", "process_files_row_bytes", ",.0f"),
)
EVERY = (
    *SET_AND_MODEL,
    Column("method", label),
    *columns_named("g", "beta", "gamma"),
    Column("bytes", "ram_row_bytes", ",.1f"),
    Column("fixed KB", lambda row: row["ram_fixed_bytes"], ",.0f", 1000),
    Column("disk", "disk_row_bytes", ",.0f"),
    Column("KiB read", "read_query_bytes", ",.0f", 1024),
    Column("KiB cold", "read_pages_query_bytes", ",.0f", 1024),
    Column("nDCG@10", "ndcg@10", ".2f"),
    Column("diff.", "ndcg@10_delta", "+.2f"),
    Column("low", "ndcg@10_low", "+.2f"),
    Column("high", "ndcg@10_high", "+.2f"),
    Column("MRR@10", "mrr@10", ".2f"),
    Column("recall@10", "recall@10", ".2f"),
    Column("recall@100", "recall@100", ".2f"),
    Column("agreement@10", "agreement@10", ".3f"),
    Column("p50 ms", "p50_ms_one", ".3f"),
    Column("p95", "p95_ms_one", ".3f"),
    Column("p99", "p99_ms_one", ".3f"),
    Column("p50 all", "p50_ms_all", ".3f"),
    Column("queries/s", "queries_per_s", ",.0f"),
    Column("fit s", "fit_s", ".2f"),
    Column("build s", "build_s", ".2f"),
    Column("grew", "process_row_bytes", ",.0f"),
    Column("mapped", "process_files_row_bytes", ",.0f"),
)
EVERY_NOTE = (
    "Bytes a vector from the structures; disk: bytes a vector. Read: KiB of rows on disk that "
    "a query looks at; cold: of the pages they lie on. Intervals: 95%, paired with float32. "
    "Milliseconds: one query on one thread, pages in the system's cache. Grew and mapped: "
    "bytes a vector that the process got, its own and of files."
)


def headline(rows: Sequence[Row], columns: Sequence[Column] = HEADLINE) -> list[Table]:
    """Each set and model: float32, slimdex at 1/64 and at 1/128, with paired intervals."""
    lines = [e | {"ways": {"usual": u, "small": s}} for e, u, s in _headlines(rows)]
    table = tabulated("nDCG@10 at 1/64 and 1/128 of the memory", "", columns, lines)
    return [table] if lines else []


def _headlines(rows: Sequence[Row]) -> Iterator[tuple[Row, Row, Row]]:
    for task in tasks(rows):
        mine = of_task(rows, task)
        exact, usual, small = uncompressed_row(mine), default_row(mine), small_row(mine)
        if exact and usual and small:
            yield exact, usual, small


def codes_alone(rows: Sequence[Row]) -> list[Table]:
    """For each model: codes at 1/4 to 1/32 of float32 with no vectors on disk."""
    found = []
    for model in dict.fromkeys(model for _, model in tasks(rows)):
        sets = shared_sets(rows, model)
        means = mean_by_method(rows, model, sets)
        best = [row for of in CODES for row in codes_at(means, of)]
        if any(row["method"] == SLIMDEX for row in best):
            note = ", ".join(sets)
            found.append(tabulated(f"Codes alone, {model}", note, CODES_ALONE, best))
    return found


def beside_peers(rows: Sequence[Row]) -> list[Table]:
    """For each set and model: the fastest setting of each at agreement 0.99, or nearest to it."""
    found = []
    for task in tasks(rows):
        mine = of_task(rows, task)
        note = f"{task[1]}: {mine[0]['documents']:,} vectors"
        failed = failures(row for row in rows if (row["set"], row["model"]) == task)
        absent = [name for name in names_of(VECTORS) if name not in {row["method"] for row in mine}]
        note += failed or (f"; not measured: {', '.join(absent)}" if absent else "")
        shown = [row | _times_at_lower(mine, row["method"]) for row in fastest_at(mine)]
        found.append(tabulated(f"Beside what people use: {task[0]}", note, BESIDE_PEERS, shown))
    return found


def _times_at_lower(rows: Sequence[Row], method: str) -> Row:
    """Median times of a method at its fastest settings that reach lower agreements."""
    own = [row for row in rows if row["method"] == method]
    found: Row = {}
    for least in LOWER:
        reached = [row["p50_ms_one"] for row in own if row["agreement@10"] >= least]
        found[f"p50_ms_at_{least}"] = min(reached, default=None)
    return found


def every_row(rows: Sequence[Row]) -> Table:
    """All rows with the most important columns."""
    return tabulated("All rows", EVERY_NOTE, EVERY, measured(rows))
