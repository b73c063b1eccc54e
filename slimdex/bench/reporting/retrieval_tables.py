"""Quality, memory and time: choices among the rows of methods and peers, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from slimdex.indexes.options import CANDIDATES

from ..engines.registry import finds_in_files
from ..experiments.retrieval_study import DEFAULTS, UNCOMPRESSED, part
from ..rows import Row
from .table import (
    SET_AND_MODEL,
    Column,
    Table,
    columns_named,
    difference,
    failures,
    measured,
    of_way,
    tabulated,
)

SLIMDEX = "slimdex"
CODES_ONLY = "codes only"
RESCORED = "rescored"
FASTEST_AT = 0.99
"""Agreement with exact search at which approximate indexes are compared."""
LOWER = (0.98, 0.95)
"""Agreements at which they are compared too, since not all reach the first one."""

METHODS = (
    *(SLIMDEX, UNCOMPRESSED, "float16", "int8", "int4", "PQ", "OPQ+PQ"),
    *("RaBitQ", "PCA", "truncate", "random projection"),
)
"""Methods that are compared by quality and memory."""


def tasks(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """List (set, model) of the rows, by model in the order of the rows, then by size."""
    sizes = {(r["model"], r["documents"], r["set"]) for r in rows}
    return [(name, model) for model, _, name in sorted(sizes)]


def of_task(rows: Iterable[Row], task: tuple[str, str]) -> list[Row]:
    """Rows of a set and model that were measured without an error."""
    return [r for r in rows if (r["set"], r["model"]) == task and "error" not in r]


def is_slimdex(row: Row, of: int, effort: Callable[[Row], int]) -> bool:
    """Return whether a row is slimdex by default except for k = d / of and its candidates."""
    settings = (row.get("beta"), row.get("gamma"), row.get("kind"))
    return (
        row["method"] == SLIMDEX
        and settings == (DEFAULTS.beta, DEFAULTS.gamma, DEFAULTS.kind)
        and row["k"] == part(row["dim"], of)
        and row["effort"] == effort(row)
    )


def default_row(rows: Sequence[Row]) -> Row | None:
    """Row of slimdex as `slimdex build` makes it: 1/64 of float32."""
    return next((r for r in rows if is_slimdex(r, 2, lambda _: CANDIDATES)), None)


def is_default(row: Row) -> bool:
    """Return whether a row of `bench search` is of the default index.

    Older rows, which have no `code_bytes`, were measured without words and passages.
    """
    return row["method"] == SLIMDEX and not row["effort"] and bool(row.get("code_bytes"))


def small_row(rows: Sequence[Row]) -> Row | None:
    """Row of slimdex at 1/128 with 1% of the documents as candidates."""
    return next((r for r in rows if is_slimdex(r, 4, one_percent)), None)


def one_percent(row: Row) -> int:
    """Number of candidates that is 1% of the documents."""
    return max(int(row["documents"]) // 100, 10)


def uncompressed_row(rows: Sequence[Row]) -> Row | None:
    """Row of exact float32 search, if there is one."""
    return next((r for r in rows if r["method"] == UNCOMPRESSED), None)


def stage(row: Row) -> str:
    """Describe whether answers have the order of the codes or of better vectors."""
    return RESCORED if row["effort"] else CODES_ONLY


def label(row: Row) -> str:
    """Describe a row's method in a few words.

    >>> label({"method": "slimdex", "k": 192, "kind": "pq", "effort": 200})
    'slimdex k=192 pq, 200 rescored'
    >>> label({"method": "hnswlib", "effort": 64})
    'hnswlib, effort 64'
    """
    if row.get("k") is None:
        return f"{row['method']}, effort {row['effort']}" if row["effort"] else str(row["method"])
    words = f"{row['method']} k={row['k']} {row['kind']}"
    return f"{words}, {row['effort']} rescored" if row["effort"] else words


def front(
    rows: Iterable[Row], size: str = "ram_row_bytes", quality: str = "ndcg@10_delta"
) -> list[Row]:
    """Rows that no smaller one beats in quality, from the smallest to the best.

    >>> sizes = {3: 0.9, 1: 0.8, 2: 0.7}
    >>> made = [{"bytes": size, "recall": recall} for size, recall in sizes.items()]
    >>> [row["bytes"] for row in front(made, "bytes", "recall")]
    [1, 3]
    """
    found: list[Row] = []
    for row in sorted(rows, key=lambda r: (r[size], -r[quality])):
        if not found or row[quality] > found[-1][quality]:
            found.append(row)
    return found


def mean_by_method(rows: Sequence[Row], model: str) -> list[Row]:
    """Rows of one model averaged over its sets.

    Only methods measured on all of them are included, distinguished by name, size, kind, k and
    effort; candidates that depend on the size of a set are left out.
    """
    own = [row for row in rows if row["model"] == model]
    sets = {row["set"] for row in own}
    groups: dict[Any, list[Row]] = {}
    for row in own:
        if "error" not in row and row.get("compression"):
            key = [row.get(n) for n in ("method", "k", "beta", "gamma", "kind", "effort")]
            groups.setdefault(tuple(key), []).append(row)
    return [
        members[0] | {"ndcg@10_delta": fmean(row["ndcg@10_delta"] for row in members)}
        for members in groups.values()
        if {row["set"] for row in members} == sets
    ]


def lines_of(means: Sequence[Row]) -> list[Row]:
    """Rows of each method's line, rescored or by codes alone: those that no smaller one beats."""
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in means:
        lines.setdefault((row["method"], stage(row)), []).append(row)
    return [row for line in lines.values() for row in front(line)]


def fastest_at(rows: Sequence[Row], least: float = FASTEST_AT, by: str = "p50_ms_one") -> list[Row]:
    """Fastest row of each method that reaches the agreement, by a median.

    If none does, the row that is nearest to it.
    """

    def rank(row: Row) -> tuple[float, float]:
        return max(least - row["agreement@10"], 0.0), row[by]

    best: dict[str, Row] = {}
    for row in (r for r in rows if "error" not in r):
        if row["method"] not in best or rank(row) < rank(best[row["method"]]):
            best[row["method"]] = row
    return sorted(best.values(), key=lambda r: r[by])


def with_mapped(row: Row) -> float | None:
    """Bytes per vector that the process grew, private and pages of the index's files.

    None for older rows, whose mapped pages include those of the index's input.
    """
    mapped = row.get("mapped_row_bytes")
    return None if mapped is None else float(row["process_row_bytes"] + mapped)


QUALITY = (
    *columns_named("", "set"),
    *columns_named(",.0f", "documents"),
    Column("float32", "ndcg@10", ".2f"),
    Column("1/64", of_way("usual", "ndcg@10"), ".2f"),
    Column("difference", of_way("usual", difference)),
    Column("1/128", of_way("small", "ndcg@10"), ".2f"),
    Column("difference", of_way("small", difference)),
)
PEERS = (
    Column("", "method"),
    Column("agreement", "agreement@10", ".3f"),
    Column("p50 ms", "p50_ms_one", ".2f"),
    Column("p50 ms capped", "p50_ms_capped", ".2f"),
    Column("batch, queries/s", "queries_per_s", ",.0f"),
    Column("build s", "build_s", ".2f"),
    Column("private", "process_row_bytes", ",.0f"),
    Column("and mapped", with_mapped, ",.0f"),
    Column("disk", "disk_row_bytes", ",.0f"),
)
EVERY = (
    *SET_AND_MODEL,
    Column("method", label),
    *columns_named("g", "beta", "gamma"),
    Column("bytes", "ram_row_bytes", ",.1f"),
    Column("fixed KB", lambda row: row["ram_fixed_bytes"], ",.0f", 1000),
    Column("disk", "disk_row_bytes", ",.0f"),
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
    Column("queries/s", "queries_per_s", ",.0f"),
    Column("fit s", "fit_s", ".2f"),
    Column("build s", "build_s", ".2f"),
    Column("private", "process_row_bytes", ",.0f"),
    Column("and mapped", with_mapped, ",.0f"),
)
EVERY_NOTE = (
    "Bytes a vector from the structures; disk: bytes a vector. Intervals: 95%, paired with "
    "float32. Milliseconds: one query on one thread, pages in the system's cache. Private, and "
    "mapped: bytes a vector that the process grew, without and with pages of the index's files."
)


def quality(rows: Sequence[Row]) -> list[Table]:
    """For each model, each set: float32, slimdex at 1/64 and at 1/128, with paired intervals."""
    lines = dict[str, list[Row]]()
    for task in tasks(rows):
        mine = of_task(rows, task)
        exact = uncompressed_row(mine)
        usual = default_row(mine)
        small = small_row(mine)
        if exact and usual and small:
            line = exact | {"ways": {"usual": usual, "small": small}}
            lines.setdefault(task[1], []).append(line)
    several = len(lines) > 1
    return [tabulated(model * several, "", QUALITY, own) for model, own in lines.items()]


def peers(rows: Sequence[Row]) -> list[Table]:
    """For each set and model: methods in the encoder's own order, each at its fastest setting.

    Those that keep vectors in memory have one table, those that find them in files another;
    slimdex is in both.
    """
    tables = []
    every = tasks(rows)
    for task in every:
        # Titles are headings of the report, which differ.
        end = f", {task[0]}, {task[1]}" if len(every) > 1 else ""
        mine = of_task(rows, task)
        lines = [row for row in fastest_at(mine) if "whitened" not in row["method"]]
        columns = [c for c in PEERS if any(c.cell(row).shown for row in lines)]
        note = f"{task[0]}, {mine[0]['documents']:,} vectors{_memory_note(mine)}"
        note += failures(row for row in rows if (row["set"], row["model"]) == task)
        in_files = [row for row in lines if finds_in_files(row["method"])]
        in_memory = [row for row in lines if row not in in_files]
        ours = [row for row in in_memory if row["method"].startswith(SLIMDEX)]
        beside = [row for row in lines if row in ours or row in in_files]
        tables.append(tabulated(f"Vectors in memory{end}", note, columns, in_memory))
        tables.append(tabulated(f"Vectors in files{end}", note, columns, beside))
    return tables


def most_compared(rows: Sequence[Row]) -> list[Row]:
    """Rows of the set and model with the most methods."""
    each = [of_task(rows, task) for task in tasks(rows)]
    return max(each, key=lambda own: len({row["method"] for row in own}), default=[])


def _memory_note(rows: Sequence[Row]) -> str:
    """Describe the limit of memory of the capped times."""
    caps = {row["cap_bytes"] for row in rows if "cap_bytes" in row}
    return "".join(f"; capped: at most {cap // 10**6} MB beyond Python's" for cap in sorted(caps))


def every_row(rows: Sequence[Row]) -> Table:
    """All rows with the most important columns."""
    return tabulated("All rows", EVERY_NOTE, EVERY, measured(rows))
