"""Tables of the other experiments: search, cold, encode, serve, hybrid, tune and sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...rows import Row
from ..findings import of_task
from .table import EMPTY, Cell, Column, Table, change, failures, grouped, tabulated

Rows = Sequence[Row]
DIFFERENCE = change()
SET_AND_MODEL = (Column("set", "set"), Column("model", "model"))


def search(rows: Rows) -> list[Table]:
    """For each set and model: stores by the time from a text to its documents, and their memory."""
    callers = next((row["callers"] for row in rows if "callers" in row), 0)
    columns = (
        Column("", "method"),
        Column("effort", lambda row: row["effort"] or None, ".0f"),
        Column("agreement", "agreement@10", ".3f"),
        Column("nDCG@10", "ndcg@10", ".2f"),
        Column("text to documents, p50 ms", "p50_ms_total_one", ".2f"),
        Column("p95 ms", "p95_ms_total_one", ".2f"),
        Column("p99 ms", "p99_ms_total_one", ".2f"),
        Column("of that encoding", "p50_ms_encode_one", ".2f"),
        Column("search", "p50_ms_search_one", ".2f"),
        Column("documents", "p50_ms_documents_one", ".2f"),
        Column("all threads, p50 ms", "p50_ms_total_all", ".2f"),
        Column(f"{callers} callers, p50 ms", "p50_ms_callers_one", ".2f"),
        Column("searches/s", "searches_per_s_one", ",.0f"),
        Column("all threads, searches/s", "searches_per_s_all", ",.0f"),
        Column("memory, MB", "memory_bytes", ",.0f", 1e6),
        Column("and of files", "memory_files_bytes", ",.0f", 1e6),
        Column("of these the store's", "store_bytes", ",.0f", 1e6),
        Column("and of files", "store_files_bytes", ",.0f", 1e6),
        Column("disk, bytes each", "disk_row_bytes", ",.0f"),
        Column("build s", "build_s", ",.1f"),
    )
    found = []
    for task, mine in grouped(rows, "set", "model").items():
        told = sorted(of_task(mine, task), key=lambda row: row["p50_ms_total_one"])
        note = f"{mine[0]['documents']:,} documents{failures(mine, 'method')}"
        found.append(tabulated(", ".join(task), note, columns, told))
    return [table for table in found if table.rows]


def cold(rows: Rows) -> list[Table]:
    """For each set and model: files in memory and dropped from it, and what a query reads."""
    found = []
    for task, mine in grouped(rows, "set", "model").items():
        told = of_task(mine, task)
        names = dict.fromkeys(n for row in told for n in row if n.startswith("cached_"))
        held = [name for name in names if any(row.get(name) for row in told[1:])]
        columns = (
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
        note = f"{mine[0]['documents']:,} documents"
        if failed := [row["error"] for row in mine if "error" in row]:
            note += f"; failed: {failed[0]}"
        found.append(tabulated(", ".join(task), note, columns, told))
    return [table for table in found if table.rows]


ENCODERS = (
    Column("", "encoder"),
    Column("short texts/s", "short_texts_per_s", ",.0f"),
    Column("long texts/s", "long_texts_per_s", ",.1f"),
    Column("tokens/s", "long_tokens_per_s", ",.0f"),
    Column("share of the limit", "long_share", ".0%"),
    Column("one text, p50 ms", "p50_ms_single", ".1f"),
    Column("p95 ms", "p95_ms_single", ".1f"),
    Column("memory, MB", "peak_bytes", ",.0f", 1e6),
    Column("STS average", "sts_average", ".2f"),
)


def encoders(rows: Rows) -> list[Table]:
    """Each model's encoders, the fastest on short texts first."""
    tables = []
    for (model,), own in grouped(rows, "model").items():
        told = [row for row in own if "error" not in row]
        if not told:
            continue
        told.sort(key=lambda row: -row["short_texts_per_s"])
        note = f"{told[0]['texts']}: {told[0]['short_texts']:,} and {told[0]['long_texts']:,} texts"
        rates = {row["precision"]: row["product_flops"] for row in told if row.get("product_flops")}
        note += "; matrix products: " + ", ".join(
            f"{rate / 1e9:,.0f} GFLOP/s in {precision}" for precision, rate in sorted(rates.items())
        )
        if failed := [row["encoder"] for row in own if "error" in row]:
            note += f"; failed: {', '.join(failed)}"
        tables.append(tabulated(model, note, ENCODERS, told))
    return tables


LOADS = (
    Column("asked", "way"),
    Column("by", "method"),
    Column("callers", "callers", "d"),
    Column("requests a second", "searches_per_s", ",.0f"),
    Column("p50 ms", "p50_ms", ".1f"),
    Column("p99 ms", "p99_ms", ".1f"),
    Column("MB of the process", "memory_bytes", ",.0f", 1e6),
)


def loads(rows: Rows) -> list[Table]:
    """For each index: what callers of a service get, beside the same index in process."""
    note = "each caller asks and waits; in process one thread does"
    return [
        tabulated(f"{documents:,} documents, {model}", note, LOADS, own)
        for (model, documents), own in grouped(rows, "model", "documents").items()
    ]


WAYS = ("meaning", "words", "rrf", "0.1", "0.3", "0.5", "auto")
BASE = "meaning"


def _of_way(row: Row, way: str, name: str) -> Any:
    return row["ways"][way][name]


def _delta(way: str) -> Column:
    return Column(way, partial(_of_way, way=way, name="ndcg@10_delta"), "+.2f")


def _share(way: str) -> Column:
    return Column(way, partial(_of_way, way=way, name="first_share"), ".1%")


AUTO_IS = Column("auto is", partial(_of_way, way="auto", name="fusion"))
HYBRID = (
    *SET_AND_MODEL,
    Column("documents", "documents", ",d"),
    Column("queries", "queries", ",d"),
    Column(BASE, "ndcg@10", ".2f"),
    *(_delta(way) for way in WAYS[1:-1]),
    Column("auto", lambda row: DIFFERENCE(row["ways"]["auto"])),
    AUTO_IS,
)
NAMES = (
    *SET_AND_MODEL,
    Column("names asked for", "queries", ",d"),
    *map(_share, WAYS),
    AUTO_IS,
)
WORDS_COST = (
    *SET_AND_MODEL,
    Column("words: bytes on disk", "words_row_bytes", ",.0f"),
    Column("of them read", "words_memory_row_bytes", ",.0f"),
    Column("s to index", "words_s", ".1f"),
    Column("codes: bytes in memory", "ram_row_bytes", ",.0f"),
    Column("vectors: bytes on disk", "disk_row_bytes", ",.0f"),
    Column("s to build", "build_s", ".1f"),
    Column("words, p50 ms", "p50_ms_words", ".2f"),
    Column("meaning", "p50_ms_meaning", ".2f"),
    Column("to documents by meaning", "p50_ms_documents", ".2f"),
    Column("by both", "p50_ms_fused", ".2f"),
)


def hybrid(rows: Rows) -> list[Table]:
    """nDCG@10 of each fusion, how often names come first, and time and bytes."""
    queries, names = (_with_ways(rows, what) for what in ("queries", "names"))
    difference = "nDCG@10 times 100, and differences from meaning alone"
    cost = "bytes a vector; searches by vectors that are there"
    made = (
        tabulated("Words beside meaning", difference, HYBRID, queries),
        tabulated("Names", "share of them that come first", NAMES, names),
        tabulated("What words cost", cost, WORDS_COST, queries),
    )
    return [table for table in made if table.rows]


def _with_ways(rows: Rows, what: str) -> list[Row]:
    """The row of meaning alone of each set and model, with the rows of all ways."""
    asked = grouped([row for row in rows if row["what"] == what], "set", "model")
    by_way = [{row["way"]: row for row in own} for own in asked.values()]
    return [ways[BASE] | {"ways": ways} for ways in by_way]


def _cell(row: Row, way: str) -> str:
    found = row["ways"][way]
    return f"({found['beta']:g}, {found['gamma']:g})"


METRIC = (
    *SET_AND_MODEL,
    Column("queries", "queries", ",d"),
    Column("default", "ndcg@10", ".2f"),
    *(
        column
        for head, way in (
            ("chosen without labels", "unlabelled"),
            ("chosen by labels", "labels"),
            ("best", "oracle"),
        )
        for column in (
            Column(head, partial(_cell, way=way)),
            Column("difference", lambda row, way=way: DIFFERENCE(row["ways"][way])),  # type: ignore[misc]
        )
    ),
)
TARGET = (
    *SET_AND_MODEL,
    Column("", lambda row: row["way"] if "error" in row else f"{row['way']}: {row['kind']}"),
    Column("k", "k", "d"),
    Column("candidates", "candidates", ",d"),
    Column("kB in memory", "ram_bytes", ",.0f", 1e3),
    Column("proved", lambda row: "nothing" if "error" in row else _proved(row)),
    Column("real agreement", "recall@10_total", ".4f"),
    Column("nDCG@10", "ndcg@10", ".2f"),
)
COVERAGE = (
    *SET_AND_MODEL,
    Column("queries made of", lambda row: row["way"].split(",")[0]),
    Column("trials", "trials", ",d"),
    Column("bound too high", lambda row: row["too_high"] / row["trials"], ".2%"),
    Column("real agreement", lambda row: _range(row["found"])),
    Column("less the mean bound", lambda row: _range(row["room"])),
)
GROWTH = (
    *SET_AND_MODEL,
    Column("refit", "way"),
    Column("fitted anew", lambda row: "yes" if row["refitted"] else "no"),
    Column("agreement of its own", "recall@10_total", ".4f"),
    Column("lost, measured", "loss", ".4f"),
    Column("lost, by health", "loss_said", ".4f"),
    Column("nDCG@10", "ndcg@10", ".2f"),
    Column("difference from fresh", DIFFERENCE),
)


def tuning(rows: Rows) -> list[Table]:
    """A table for each part that has rows: choice, target, coverage of the bound, and growth."""
    of = {what: own for (what,), own in grouped(rows, "what").items()}
    metric = [
        ways["default"] | {"ways": ways}
        for own in grouped(of.get("metric", ()), "set", "model").values()
        if (ways := {row["way"]: row for row in own})
    ]
    fitted, note = _fitted(of.get("growth", ()))
    judged = "nDCG@10 by exact search; differences from the default (0, 0.25)"
    made = (
        tabulated("beta and gamma", judged, METRIC, metric),
        tabulated(
            "An agreement of 0.99",
            "real queries, which tuning did not see",
            TARGET,
            _together(of.get("target", ())),
        ),
        tabulated(
            "Coverage of the bound",
            "500 queries each, 95%",
            COVERAGE,
            map(_trials, grouped(of.get("coverage", ()), "set", "model").values()),
        ),
        tabulated("Growth", note, GROWTH, fitted),
    )
    return [table for table in made if table.rows]


def _proved(row: Row) -> Cell:
    bound = row.get("bound")
    return EMPTY if bound is None else Cell(f"{bound:.4f}", bound)


def _range(values: Sequence[float]) -> Cell:
    return Cell(f"{min(values):.3f} to {max(values):.3f}", min(values))


def _together(rows: Rows) -> list[Row]:
    """Rows of each set and model beside each other."""
    return [row for own in grouped(rows, "set", "model").values() for row in own]


def _trials(rows: Rows) -> Row:
    """The first of the rows with the sums and ranges of all."""
    return rows[0] | {
        "trials": sum(row["trials"] for row in rows),
        "too_high": sum(row["too_high"] for row in rows),
        "found": [row["recall@10_total"] for row in rows],
        "room": [row["recall@10_total"] - row["bound"] for row in rows],
    }


def _fitted(rows: Rows) -> tuple[list[Row], str]:
    """Rows of the sets with enough documents at first, and a note on the others."""
    by_task = grouped(rows, "set", "model").values()
    whole = [own for own in by_task if any("loss_said" in r for r in own if r["way"] == "never")]
    note = "fitted on a twentieth, of one topic"
    if few := len(by_task) - len(whole):
        note += f"; {few} others had too few documents at first, and are fitted anew in any case"
    return [row for own in whole for row in own], note


COUNTS = {
    "documents": "documents",
    "kills": "kills",
    "faults": "failed calls",
    "power_losses": "losses of power",
    "flips": "flipped bits",
    "searches": "searches",
    "changes": "changes",
}
SWEEP = (
    Column("test", lambda row: row["what"].removeprefix("test_").replace("_", " ")),
    *(Column(head, name, ",d") for name, head in COUNTS.items()),
)


def sweep(rows: Rows) -> Table:
    """A line for each test of `make sweep`, with the sums of its cases."""
    sums = [
        {name: sum(row.get(name, 0) for row in own) or None for name in COUNTS} | {"what": what}
        for (what,), own in grouped(rows, "what").items()
    ]
    return tabulated("Sweep", "of tests that passed", SWEEP, sums)
