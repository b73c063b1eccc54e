"""Quality, memory and time: choices among the rows of methods and peers, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from slimdex.indexes.options import CANDIDATES

from ..engines.engine import VECTORS
from ..engines.registry import names_of
from ..experiments.retrieval_study import DEFAULTS, UNCOMPRESSED, part
from ..rows import Row
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

SLIMDEX = "slimdex"
CODES_ONLY, RESCORED = "codes only", "rescored"
CODES = {4: "fp16", 8: "sq8", 16: "PQ{half}x4fs", 32: "PQ{eighth}"}
"""Share of float32 -> kind of slimdex's codes, with half the dimensions and no rescoring."""
FASTEST_AT = 0.99
"""Agreement with exact search at which approximate indexes are compared."""
LOWER = (0.98, 0.95)
"""Agreements at which they are compared too, since not all reach the first one."""

METHODS = (
    *(SLIMDEX, UNCOMPRESSED, "float16", "ST int8", "ST binary", "int8", "int4", "PQ", "OPQ+PQ"),
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
    >>> label({"method": "ST binary", "effort": 4})
    'ST binary, effort 4'
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


def shared_sets(rows: Sequence[Row], model: str) -> list[str]:
    """Sets of a model on which all its kinds of codes were measured.

    Some quantisers train for minutes, so a large set may lack them.
    """
    mine = [r for r in rows if r["model"] == model and "error" not in r and not r["effort"]]
    sets: dict[tuple[str, Any], set[str]] = {}
    for row in mine:
        if row["method"] in METHODS:
            sets.setdefault((row["method"], row.get("kind")), set()).add(row["set"])
    common = set.intersection(*sets.values()) if sets else set()
    return [name for name, m in tasks(rows) if m == model and name in common]


def mean_by_method(
    rows: Sequence[Row], model: str, names: Collection[str] | None = None
) -> list[Row]:
    """Rows of one model averaged over its sets, or those of these names.

    Only methods measured on all of them are included, distinguished by name, size, kind, k and
    effort; candidates that depend on the size of a set are left out.
    """
    sets = {r["set"] for r in rows if r["model"] == model and (names is None or r["set"] in names)}
    grouped: dict[Any, list[Row]] = {}
    for row in rows:
        if row["model"] != model or row["set"] not in sets:
            continue
        if "error" not in row and row.get("compression"):
            key = [row.get(n) for n in ("method", "k", "beta", "gamma", "kind", "effort")]
            grouped.setdefault(tuple(key), []).append(row)
    means = []
    for members in grouped.values():
        if {r["set"] for r in members} == sets:
            deltas = [r["ndcg@10_delta"] for r in members]
            mean = {"ndcg@10_delta": sum(deltas) / len(deltas), "worst_delta": min(deltas)}
            means.append(members[0] | mean)
    return means


def lines_of(means: Sequence[Row]) -> list[Row]:
    """Rows of each method's line, rescored or by codes alone: those that no smaller one beats."""
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in means:
        lines.setdefault((row["method"], stage(row)), []).append(row)
    return [row for line in lines.values() for row in front(line)]


def codes_at(means: Sequence[Row], of: int) -> list[Row]:
    """Codes alone of about 1/of, the best of each method, best first.

    slimdex's setting is fixed, not chosen by the labels: half the dimensions, default beta and
    gamma, and the kind in `CODES` for the size.
    """
    best: dict[str, Row] = {}
    for row in means:
        fits = of / 1.5 <= row["compression"] < of * 4 / 3  # RaBitQ's 1/27 counts as 1/32
        if row["effort"] or not fits or row["method"] not in METHODS or row.get("kind") == "flat":
            continue
        if row["method"] == SLIMDEX:
            kind = CODES[of].format(half=part(row["dim"], 2), eighth=part(row["dim"], 2) // 4)
            if (row["k"], row["kind"]) != (part(row["dim"], 2), kind):
                continue
        kept = best.get(row["method"])
        if kept is None or row["ndcg@10_delta"] > kept["ndcg@10_delta"]:
            best[row["method"]] = row
    return sorted(best.values(), key=lambda r: -r["ndcg@10_delta"])


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


def reported_bytes(row: Row) -> float | None:
    """Bytes per vector in memory as the index reports, with its share of the fixed cost.

    None if it doesn't: compare methods by the growth of their processes, which all have.
    """
    if row["ram_row_bytes"] is None:
        return None
    return float(row["ram_row_bytes"] + (row["ram_fixed_bytes"] or 0) / row["documents"])


def with_mapped(row: Row) -> float | None:
    """Bytes per vector that the process grew, private and pages of the index's files.

    None for older rows, whose mapped pages include those of the index's input.
    """
    mapped = row.get("mapped_row_bytes")
    return None if mapped is None else float(row["process_row_bytes"] + mapped)


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
    Column("p50 ms capped", "p50_ms_capped", ".2f"),
    Column("private", "process_row_bytes", ",.0f"),
    Column("and mapped", with_mapped, ",.0f"),
    Column("disk", "disk_row_bytes", ",.0f"),
    Column("as reported", reported_bytes, ",.0f"),
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
    Column("private", "process_row_bytes", ",.0f"),
    Column("and mapped", with_mapped, ",.0f"),
)
EVERY_NOTE = (
    "Bytes a vector from the structures; disk: bytes a vector. Read: KiB of rows on disk that "
    "a query looks at; cold: of the pages they lie on. Intervals: 95%, paired with float32. "
    "Milliseconds: one query on one thread, pages in the system's cache. Private, and mapped: "
    "bytes a vector that the process grew, without and with pages of the index's files."
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
        note += _memory_note(mine)
        shown = [row | _times_at_lower(mine, row["method"]) for row in fastest_at(mine)]
        found.append(tabulated(f"Beside what people use: {task[0]}", note, BESIDE_PEERS, shown))
    return found


def _memory_note(rows: Sequence[Row]) -> str:
    """Describe what memory was measured, if not all of it, and its limit."""
    if any("mapped_row_bytes" not in row for row in rows):
        return "; mapped files were not measured apart from the input: private memory alone"
    caps = {row["cap_bytes"] for row in rows if "cap_bytes" in row}
    return "".join(f"; capped: at most {cap // 10**6} MB beyond Python's" for cap in sorted(caps))


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
