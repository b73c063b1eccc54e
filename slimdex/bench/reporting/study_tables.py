"""Tables of search, encode, start, serve, hybrid, sts and sweeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..experiments.search_study import CALLERS
from ..experiments.similarity_study import SEVEN
from ..rows import Row
from .table import (
    BY_TASK,
    DIFFERENCE,
    DOCUMENTS,
    NOT_MEASURED,
    SET_AND_MODEL,
    Cell,
    Column,
    Declared,
    Rows,
    Table,
    by_way,
    columns_named,
    failures,
    grouped,
    measured,
    of_way,
    tabulated,
    together,
)

BUSY = 4
"""Load of each processor from which the times of a row are not shown."""
SU = ("STS-B", "STS12", "STS13", "STS14", "STS15", "STS16", "SICK-R")
"""Columns of Su et al.'s Tables 1 and 2."""
BY_SUBTASKS = ("average wmean", "average by subtasks")
"""Column of a row, and its name in tables."""


def time_of(name: str) -> Callable[[Row], Any]:
    """Take a time of a row; a dash if its machine was too busy to measure one."""
    return lambda row: row[name] if row.get("load", 0) < BUSY * row["threads"] else NOT_MEASURED


search = Declared(
    "{set}, {model}, {processor}",
    (
        Column("", "method"),
        Column("effort", lambda row: row["effort"] or None, ".0f"),
        Column("agreement", "agreement@10", ".3f"),
        Column("nDCG@10", "ndcg@10", ".2f"),
        Column("text to documents, p50 ms", "p50_ms_total_one", ".2f"),
        Column("p95 ms", "p95_ms_total_one", ".2f"),
        Column("p99 ms", "p99_ms_total_one", ".2f"),
        Column("of that encoding", "p50_ms_encode_one", ".2f"),
        Column("search", "p50_ms_search_one", ".2f"),
        Column("search and documents", "p50_ms_fetch_one", ".2f"),
        Column("all threads, p50 ms", "p50_ms_total_all", ".2f"),
        Column(f"{CALLERS} callers, p50 ms", "p50_ms_callers_one", ".2f"),
        Column("searches/s", "searches_per_s_one", ",.0f"),
        Column("all threads, searches/s", "searches_per_s_all", ",.0f"),
        Column("codes, MB", "code_bytes", ",.1f", 1e6),
        Column("memory, MB", "memory_bytes", ",.0f", 1e6),
        Column("and of files", "memory_files_bytes", ",.0f", 1e6),
        Column("of these the store's", "store_bytes", ",.0f", 1e6),
        Column("and of files", "store_files_bytes", ",.0f", 1e6),
        Column("disk, bytes each", "disk_row_bytes", ",.0f"),
        Column("build s", "build_s", ",.1f"),
    ),
    lambda rows: DOCUMENTS.format_map(rows[0]) + failures(rows),
    (*BY_TASK, "processor"),  # times of different processors don't compare
    sort="p50_ms_total_one",
)


def _encoders_note(rows: Rows) -> str:
    found = measured(rows)
    if not found:
        return ""
    first = f"{found[0]['texts']}: {found[0]['short_texts']:,} and {found[0]['long_texts']:,} texts"
    rates = {row["precision"]: row["product_flops"] for row in found if row.get("product_flops")}
    said = (
        f"{rate / 1e9:,.0f} GFLOP/s in {precision}" for precision, rate in sorted(rates.items())
    )
    failed = ", ".join(row["encoder"] for row in rows if "error" in row)
    return f"{first}; matrix products: {', '.join(said)}" + (failed and f"; failed: {failed}")


encoders = Declared(
    "{model}",
    (
        Column("", "encoder"),
        Column("short texts/s", "short_texts_per_s", ",.0f"),
        Column("long texts/s", "long_texts_per_s", ",.1f"),
        Column("tokens/s", "long_tokens_per_s", ",.0f"),
        Column("share of the limit, short", "short_share", ".0%"),
        Column("long", "long_share", ".0%"),
        Column("one text, p50 ms", "p50_ms_single", ".1f"),
        Column("p95 ms", "p95_ms_single", ".1f"),
        Column("memory, MB", "peak_bytes", ",.0f", 1e6),
        Column("STS average", "sts_average", ".2f"),
    ),
    _encoders_note,
    ("model",),
    sort="-short_texts_per_s",
)
commands = Declared(
    "{documents:,} documents, {model}",
    (
        Column("", "method"),
        Column("s, median", "start_s", ".2f"),
        Column("least", "start_s_least", ".2f"),
        Column("most", "start_s_most", ".2f"),
        Column("first use, s", "first_s", ".1f"),
        Column("installed, MB", "install_bytes", ",.0f", 1e6),
        Column("installing, s", "install_s", ".0f"),
    ),
    lambda rows: f"{measured(rows)[0]['processes']} processes each{failures(rows)}",
    ("model", "documents"),
    lines=lambda rows: [row for row in measured(rows) if "way" not in row],
)
busy = Declared(
    "{documents:,} documents, {model}, alone and beside busy processes",
    (
        Column("", "method"),
        Column("alone, ms", "alone_s", ",.1f", 1e-3),
        Column("beside, ms", "busy_s", ",.1f", 1e-3),
        Column("processor time alone, ms", "alone_cpu_s", ",.1f", 1e-3),
        Column("processor time beside, ms", "busy_cpu_s", ",.1f", 1e-3),
    ),
    "one busy process on each processor",
    ("model", "documents"),
    lines=lambda rows: [row for row in measured(rows) if "way" in row],
)
start = together(commands, busy)
indexes = Declared(
    "{set}: {documents:,} documents, {model}",
    (
        Column("", lambda row: row.get("condition", row["way"])),
        Column("allowed, %", "allowed_share", ".2f", 0.01),
        Column("condition, p50 ms", "p50_ms_filter", ".2f"),
        Column("candidates", "candidates", ",d"),
        Column("agreement", "agreement@10", ".3f"),
        Column("vector to rows, p50 ms", "p50_ms_search", ".2f"),
        Column("p99 ms", "p99_ms_search", ".2f"),
        Column("vector to documents, p50 ms", "p50_ms_hits", ".2f"),
        Column("p99 ms", "p99_ms_hits", ".2f"),
        Column("encoding, p50 ms", "p50_ms_encode", ".2f"),
        Column("text to documents, p50 ms", "p50_ms_text", ".2f"),
        Column("p99 ms", "p99_ms_text", ".2f"),
        Column("all threads, p50 ms", "p50_ms_text_all", ".2f"),
        Column("read, KB a query", "read_query_bytes", ",.0f", 1e3),
    ),
    "{rows:,} rows of kind {kind} with k={k}, {ram_row_bytes:.0f} bytes each in memory",
    ("set", "model"),
)
memory = Declared(
    "Memory of the service, {documents:,} documents, {model}",
    (
        Column("MB", "part"),
        Column("after a search", "idle_bytes", ",.0f", 1e6),
        Column("private", "idle_private_bytes", ",.0f", 1e6),
        Column("after 64 callers", "loaded_bytes", ",.0f", 1e6),
        Column("private", "loaded_private_bytes", ",.0f", 1e6),
    ),
    "private: written; other pages are those of files, which the system can evict",
    ("model", "documents"),
    where={"what": "memory"},
)
loads = Declared(
    "{documents:,} documents, {model}",
    (
        Column("asked", "way"),
        Column("by", "method"),
        Column("callers", "callers", "d"),
        Column("requests a second", "searches_per_s", ",.0f"),
        Column("MB of the process", "memory_bytes", ",.0f", 1e6),
        Column("p50 ms", "p50_ms", ".1f"),
        Column("p99 ms", "p99_ms", ".1f"),
    ),
    "each caller asks and waits; in process one thread does",
    ("model", "documents"),
    where={"what": "serve"},
)


def _refusals(rows: Rows) -> str:
    """One refusal of each store, without the path of its source."""
    said = {row["method"]: row["refusal"].partition(", /")[0] for row in rows if row["refusal"]}
    return "; ".join(f"{method}: {refusal}" for method, refusal in said.items())


processes = Declared(
    "Commits of {changed:,}, {rows:,} documents at first",
    (
        *columns_named("d", "processes"),
        Column("", "method"),
        Column("commits/s", "commits_per_s", ",.1f"),
        Column("commit, p50 ms", "p50_ms_changes", ",.1f"),
        Column("p99 ms", "p99_ms_changes", ",.1f"),
        Column("search meanwhile, p50 ms", "p50_ms", ",.1f"),
        Column("p99 ms", "p99_ms", ",.1f"),
        *columns_named(",d", "refused", "acknowledged", "lost"),
        Column("unseen, open process", "unseen_share", ".0%"),
        Column("new process", "unfound_share", ".0%"),
    ),
    _refusals,
    ("changed",),
)

HEADS = {
    "float32": "float32, exact",
    "float32 rule": "float32 and BM25",
    "meaning": "meaning",
    "words": "BM25",
    "rule": "default",
}
"""Ways that are shown in every table -> their columns; "rule" is what a user gets."""
WAYS = ("rrf", "0.05", "0.1", "0.3", "0.5")
BASE = "float32"
AUTO_IS = Column("labels choose", of_way("auto", "fusion"))
GAMMAS = ("0.125", "0.25", "0.5")
WEIGHTS = ("0.25", "0.5", "0.75", "1")
weight = together(
    Declared(
        "Constant weights of BM25, and gamma",
        (
            *SET_AND_MODEL,
            *columns_named(",d", "documents", "queries"),
            Column("semantic", "ndcg@10", ".2f"),
            Column("default", of_way("rule", DIFFERENCE)),
            Column("left out", of_way("left out", DIFFERENCE)),
            *(Column(w, of_way(f"weight {w}", "ndcg@10_delta"), "+.2f") for w in WEIGHTS),
            *(Column(f"gamma {g}", of_way(f"gamma {g}", DIFFERENCE)) for g in GAMMAS),
        ),
        "nDCG@10 times 100; differences from exact semantic search, with 95% intervals",
        where={"what": "queries"},
        lines=by_way(BASE),
    ),
)
hybrid = together(
    Declared(
        "Lexical beside semantic search",
        (
            *SET_AND_MODEL,
            *columns_named(",d", "documents", "queries"),
            Column(HEADS[BASE], "ndcg@10", ".2f"),
            *(Column(head, of_way(way, DIFFERENCE)) for way, head in HEADS.items() if way != BASE),
            Column("by labels", of_way("auto", DIFFERENCE)),
            AUTO_IS,
        ),
        "nDCG@10 times 100; differences from exact search of float32 vectors, with 95% intervals",
        where={"what": "queries"},
        lines=by_way(BASE),
    ),
    Declared(
        "Recall",
        (
            *SET_AND_MODEL,
            *(Column(head, of_way(way, "recall@10"), ".2f") for way, head in HEADS.items()),
        ),
        "recall@10 times 100",
        where={"what": "queries"},
        lines=by_way(BASE),
    ),
    Declared(
        "Constant weights",
        (
            *SET_AND_MODEL,
            *(Column(way, of_way(way, "ndcg@10_delta"), "+.2f") for way in ("meaning", *WAYS)),
            Column("default", of_way("rule", "ndcg@10_delta"), "+.2f"),
        ),
        "nDCG@10 times 100, differences from exact search",
        where={"what": "queries"},
        lines=by_way(BASE),
    ),
    Declared(
        "Names",
        (
            *SET_AND_MODEL,
            Column("names asked for", "queries", ",d"),
            *(Column(head, of_way(way, "first_share"), ".1%") for way, head in HEADS.items()),
            *(Column(way, of_way(way, "first_share"), ".1%") for way in WAYS),
        ),
        "share of them that come first",
        where={"what": "names"},
        lines=by_way(BASE),
    ),
    Declared(
        "What words cost",
        (
            *SET_AND_MODEL,
            Column("words: bytes on disk", "words_row_bytes", ",.0f"),
            Column("of them read", "words_memory_row_bytes", ",.0f"),
            Column("s to index", time_of("words_s"), ".1f"),
            Column("codes: bytes in memory", "ram_row_bytes", ",.0f"),
            Column("vectors: bytes on disk", "disk_row_bytes", ",.0f"),
            Column("s to build", time_of("build_s"), ".1f"),
            Column("words, p50 ms", time_of("p50_ms_words"), ".2f"),
            Column("meaning", time_of("p50_ms_meaning"), ".2f"),
            Column("to documents by meaning", time_of("p50_ms_documents"), ".2f"),
            Column("by default", time_of("p50_ms_fused"), ".2f"),
            Column("many at once, by meaning", time_of("batch_ms_documents"), ".2f"),
            Column("by default", time_of("batch_ms_fused"), ".2f"),
            Column("load", "load", ".1f"),
        ),
        "bytes a vector; searches by vectors that are there; times if the load allowed it",
        where={"what": "queries"},
        lines=by_way(BASE),
    ),
)


def _repositories(rows: Rows) -> list[Table]:
    """For each model, NDCG@10 of each repository by the fusion and by all rules."""
    columns = [
        *columns_named("", "set"),
        *columns_named(",d", "queries", "documents", "rows"),
        Column("fusion", of_way("fusion", "ndcg@10"), ".2f"),
        Column("ranked as code", "ndcg@10", ".2f"),
        Column("difference", DIFFERENCE),
    ]
    lines = [row for row in by_way("all")(rows) if "documents" in row]
    return [
        tabulated(f"Repositories, {model}", "by files", columns, own)
        for (model,), own in grouped(lines, "model").items()
    ]


rules = Declared(
    "Rules of ranking, {model}",
    (
        Column("rule", "way"),
        Column("NDCG@10", "ndcg@10", ".2f"),
        Column("difference", DIFFERENCE),
    ),
    "{queries} questions; a rule is compared with no rules, *without* a rule with all",
    ("model",),
    where={"set": "every"},
)
code = together(rules, _repositories)


COUNTS = {
    "documents": "documents",
    "kills": "kills",
    "faults": "failed calls",
    "power_losses": "losses of power",
    "flips": "flipped bits",
    "searches": "searches",
    "changes": "changes",
}
LONGEST = {"longest_search_s": "longest search, s", "longest_change_s": "longest change, s"}
SWEEP = (
    Column("test", lambda row: row["what"].removeprefix("test_").replace("_", " ")),
    *(Column(head, name, ",d") for name, head in COUNTS.items()),
    *(Column(head, name, ".1f") for name, head in LONGEST.items()),
)


def sweep(rows: Rows) -> Table:
    """A line for each test of `make sweep`, with sums and maxima of its cases."""
    sums = [
        {"what": what}
        | {name: sum(row.get(name, 0) for row in own) or None for name in COUNTS}
        | {name: max(row.get(name, 0) for row in own) or None for name in LONGEST}
        for (what,), own in grouped(rows, "what").items()
    ]
    return tabulated("Sweep", "of tests that passed", SWEEP, sums)


def study_tables(rows: Sequence[Row]) -> list[Table]:
    """For each model and language: poolings without a reducer and whitened, every set.

    Figures are over all pairs of a set; the last column is the average by the papers' weighting.
    """
    tables = []
    for (model, language), own in grouped(rows, "model", "language").items():
        sets = own[0]["sets"]
        averaged = [*(SU if set(sets) == set(SEVEN) else sets), "average"]
        averaged += BY_SUBTASKS[:1] if BY_SUBTASKS[0] in own[0] else ()
        plain = {row["pooling"]: row for row in own if not row["fit"]}
        lines = [
            [
                Cell(row_name(row), row_name(row)),
                *_cells(row, plain[row["pooling"]], averaged),
            ]
            for row in own
        ]
        heads = [name.replace(*BY_SUBTASKS) for name in ["", *averaged]]
        tables.append(Table(f"{model}, {language}", "", heads, lines))
    return tables


def row_name(row: Row) -> str:
    """Name of a row: the pooling, and the reducer of its vectors."""
    name: str = row["pooling"]
    if row["fit"]:
        pair = (row["beta"], row["gamma"])
        if row["reducer"] == "flow":
            name += ", flow"
        else:
            name += ", whitened" if pair == (1.0, 1.0) else f", ({pair[0]:g}, {pair[1]:g})"
        name += f" on {row['fit']}" + (f", k={row['k']}" if row["k"] else "")
    return name


def _cells(row: Row, plain: Row, names: Sequence[str]) -> list[Cell]:
    """Figures, each with its change against no reducer."""
    cells = []
    for name in names:
        change = "" if row is plain else f" ({row[name] - plain[name]:+.2f})"
        cells.append(Cell(f"{row[name]:.2f}{change}", row[name]))
    return cells
