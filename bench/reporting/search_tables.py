"""Tables: the findings in rows and columns, for the page and for the README."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..engines.peers import PEERS
from ..experiments.search_study import CALLERS
from ..rows import Row
from .findings import (
    CODES,
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
from .tables import Cell, Table, judged, number, text


def headline(rows: Sequence[Row]) -> list[Table]:
    """Each set and model: float32, slimdex at 1/64 and at 1/128, with paired intervals."""
    lines = []
    for exact, usual, small in _headlines(rows):
        counts = [number(exact["documents"], ",.0f"), number(exact["queries"], ",.0f")]
        measured = [number(exact["ndcg@10"], ".2f"), *judged(usual), *judged(small)]
        candidates = number(small["effort"], ",.0f")
        lines.append([text(exact["set"]), text(exact["model"]), *counts, *measured, candidates])
    heads = ["set", "model", "documents", "queries", "float32", "1/64", "difference"]
    heads += ["1/128", "difference", "its candidates"]
    return [Table("nDCG@10 at 1/64 and 1/128 of the memory", "", heads, lines)] if lines else []


def headline_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows that `headline` shows."""
    return [row for line in _headlines(rows) for row in line]


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
        lines = [_codes_line(row) for row in best]
        if any(row["method"] == SLIMDEX for row in best):
            heads = ["of float32", "codes", "bytes", "mean difference", "worst set"]
            found.append(Table(f"Codes alone, {model}", ", ".join(sets), heads, lines))
    return found


def _codes_line(row: Row) -> list[Cell]:
    deltas = [number(row[name], "+.2f") for name in ("ndcg@10_delta", "worst_delta")]
    share = Cell(f"1/{row['compression']:.0f}", row["compression"])
    return [share, text(label(row)), number(row["ram_row_bytes"], ",.0f"), *deltas]


def beside_peers(rows: Sequence[Row]) -> list[Table]:
    """For each set and model: the fastest of each at agreement 0.99, or the nearest to it."""
    found = []
    for task in tasks(rows):
        mine = of_task(rows, task)
        lines = [_peer_line(row) for row in fastest_at(mine)]
        heads = ["", "effort", "agreement", "nDCG@10", "p50 ms", "p99 ms", "p50 ms, all threads"]
        heads += ["batch, queries/s", "build s", "bytes a vector", "process grew", "and mapped"]
        note = f"{task[0]}, {task[1]}: {mine[0]['documents']:,} vectors"
        failed = [f"{r['method']} ({r['error']})" for r in rows if _is_of(r, task) and "error" in r]
        absent = [name for name in PEERS if name not in {r["method"] for r in mine}]
        note += f"; failed: {', '.join(dict.fromkeys(failed))}" if failed else ""
        note += f"; not measured: {', '.join(absent)}" if absent and not failed else ""
        found.append(Table("Beside what people use", note, heads, lines))
    return found


def _peer_line(row: Row) -> list[Cell]:
    grown = row["process_row_bytes"], row["process_files_row_bytes"]
    return [
        text(row["method"]),
        number(row["effort"], ".0f"),
        number(row["agreement@10"], ".3f"),
        number(row["ndcg@10"], ".2f"),
        number(row["p50_ms_one"], ".2f"),
        number(row["p99_ms_one"], ".2f"),
        number(row["p50_ms_all"], ".2f"),
        number(row["queries_per_s"], ",.0f"),
        number(row["build_s"], ".2f"),
        number(resident_bytes(row), ",.0f") if is_told(row) else Cell("", ""),
        *(number(size, ",.0f") for size in grown),
    ]


def _is_of(row: Row, task: tuple[str, str]) -> bool:
    return (row["set"], row["model"]) == task


def filters(rows: Sequence[Row]) -> list[Table]:
    """For each set and model: conditions from the most selective on, and what they cost."""
    heads = ["allowed", "documents", "condition", "way", "agreement@10", "condition, p50 ms"]
    heads += ["search, p50 ms", "p95 ms", "always exactly", "p95 ms", "always by codes", "p95 ms"]
    found = []
    for task in dict.fromkeys((row["set"], row["model"]) for row in rows):
        own = sorted((row for row in rows if _is_of(row, task)), key=lambda row: row["allowed"])
        note = f"{own[0]['documents']:,} documents"
        lines = [_filter_line(row) for row in own]
        found.append(Table(f"{task[0]}, {task[1]}", note, heads, lines))
    return found


def _filter_line(row: Row) -> list[Cell]:
    times = ["p50_ms_condition"]
    times += [f"{p}_ms_{way}" for way in ("search", "exact", "codes") for p in ("p50", "p95")]
    return [
        number(row["selectivity"], ".2%"),
        number(row["allowed"], ",.0f"),
        text(f"`{row['condition']}`"),
        text(row["way"]),
        number(row["recall@10_total"], ".4f"),
        *(number(row[name], ".2f") for name in times),
    ]


def stored(rows: Sequence[Row]) -> list[Table]:
    """For each gamma: vectors kept as int8 beside float16, on every set by every model."""
    heads = ["set", "model", "documents", "queries", "fp16", "int8", "difference"]
    heads += ["the same ten", "fp16, bytes", "int8, bytes", "fp16, ms", "int8, ms"]
    found = []
    for gamma in dict.fromkeys(row["gamma"] for row in rows):
        ways = [[r for r in rows if (r["gamma"], r["way"]) == (gamma, w)] for w in ("fp16", "int8")]
        pairs = zip(*ways, strict=True)
        lines = [_stored_line(usual, small) for usual, small in pairs]
        found.append(Table(f"gamma {gamma:g}", "nDCG@10", heads, lines))
    return found


def _stored_line(usual: Row, small: Row) -> list[Cell]:
    both = (usual, small)
    return [
        text(small["set"]),
        text(small["model"]),
        *(number(small[name], ",.0f") for name in ("documents", "queries")),
        number(usual["ndcg@10"], ".2f"),
        *judged(small),
        number(small["agreement@10"], ".3f"),
        *(number(row["disk_row_bytes"], ",d") for row in both),
        *(number(row["p50_ms_rescored"], ".3f") for row in both),
    ]


def search(rows: Sequence[Row]) -> list[Table]:
    """For each set and model: stores by the time from a text to its documents, and their memory."""
    heads = ["", "effort", "agreement", "nDCG@10", "text to documents, p50 ms", "p95 ms", "p99 ms"]
    heads += ["of that encoding", "search", "documents", "all threads, p50 ms"]
    heads += [f"{CALLERS} callers, p50 ms", "searches/s", "all threads, searches/s"]
    heads += ["memory, MB", "and of files", "of these the store's", "and of files"]
    heads += ["disk, bytes each", "build s"]
    found = []
    for task in dict.fromkeys((row["set"], row["model"]) for row in rows):
        mine = [row for row in rows if _is_of(row, task)]
        told = sorted(of_task(mine, task), key=lambda row: row["p50_ms_total_one"])
        note = f"{mine[0]['documents']:,} documents"
        if failed := [f"{row['method']} ({row['error']})" for row in mine if "error" in row]:
            note += f"; failed: {', '.join(dict.fromkeys(failed))}"
        lines = [_search_line(row) for row in told]
        found.append(Table(", ".join(task), note, heads, lines))
    return [table for table in found if table.rows]


def _search_line(row: Row) -> list[Cell]:
    times = ["total_one", "encode_one", "search_one", "documents_one", "total_all", "callers_one"]
    one, *parts = [number(row.get(f"p50_ms_{name}"), ".2f") for name in times]
    tails = [number(row[f"{p}_ms_total_one"], ".2f") for p in ("p95", "p99")]
    sizes = [f"{name}_bytes" for name in ("memory", "memory_files", "store", "store_files")]
    return [
        text(row["method"]),
        number(row["effort"] or None, ".0f"),
        number(row["agreement@10"], ".3f"),
        number(row["ndcg@10"], ".2f"),
        one,
        *tails,
        *parts,
        *(number(row.get(f"searches_per_s_{name}"), ",.0f") for name in ("one", "all")),
        *(number(row[name] / 1e6, ",.0f") for name in sizes),
        number(row["disk_row_bytes"], ",.0f"),
        number(row["build_s"], ",.1f"),
    ]


def cold(rows: Sequence[Row]) -> list[Table]:
    """For each set and model: files in memory and dropped from it, and what a query reads."""
    found = []
    for task in dict.fromkeys((row["set"], row["model"]) for row in rows):
        mine = [row for row in rows if _is_of(row, task)]
        told = of_task(mine, task)
        held = [name for name in _held(told) if any(row.get(name) for row in told[1:])]
        heads = ["index's files", "memory limit, MB", "encoding, p50 ms"]
        heads += ["text to documents, p50 ms", "p95 ms", "p99 ms", "read from disk, KB a query"]
        heads += [f"{name.split('_')[1]} in memory, KB" for name in held]
        heads += ["process, MB", "and of files"]
        note = f"{mine[0]['documents']:,} documents"
        if failed := [row["error"] for row in mine if "error" in row]:
            note += f"; failed: {failed[0]}"
        found.append(Table(", ".join(task), note, heads, [_cold_line(row, held) for row in told]))
    return [table for table in found if table.rows]


def _held(rows: Sequence[Row]) -> list[str]:
    """Columns that say how much of a kind of file is in memory."""
    names = [name for row in rows for name in row if name.startswith("cached_")]
    return list(dict.fromkeys(names))


def _cold_line(row: Row, held: Sequence[str]) -> list[Cell]:
    times = ["p50_ms_encode", "p50_ms_total", "p95_ms_total", "p99_ms_total"]
    kilobytes = [number(_part(row.get(name), 1e3), ",.0f") for name in held]
    return [
        text(row["way"]),
        number(_part(row["limit_bytes"], 1e6), ",.0f"),
        *(number(row[name], ",.2f") for name in times),
        number(row["read_query_bytes"] / 1e3, ",.0f"),
        *kilobytes,
        number(row["memory_bytes"] / 1e6, ",.0f"),
        number(row["memory_files_bytes"] / 1e6, ",.0f"),
    ]


def updates(rows: Sequence[Row]) -> list[Table]:
    """What changes cost by the size of the index, and searches while there are any."""
    names = {"add_s": "add", "replace_s": "replace", "delete_s": "delete", "compact_s": "compact"}
    changes = [
        [number(row["rows"], ",.0f"), *(number(1000 * row[name], ",.0f") for name in names)]
        for row in rows
        if row["what"] == "changes"
    ]
    heads = ["threads", "while one writes", "searches/s", "p50 ms", "p99 ms"]
    heads += ["changes", "compactions", "faults"]
    traffic = [
        [
            number(row["searching"], "d"),
            text("yes" if row["writing"] else "no"),
            number(row["searches_per_s"], ",.0f"),
            *(number(row[name], ",.1f") for name in ("p50_ms", "p99_ms")),
            *(number(row[name], ",d") for name in ("changes", "compactions", "faults")),
        ]
        for row in rows
        if row["what"] == "traffic"
    ]
    documents = [f"{name} 100, ms" for name in list(names.values())[:3]]
    return [
        Table("Changes", "", ["documents", *documents, "compact, ms"], changes),
        Table("Searches", "", heads, traffic),
    ]


def every_row(rows: Sequence[Row]) -> Table:
    """All rows with the columns that people compare."""
    columns: list[tuple[str, Callable[[Row], Any], str]] = [
        ("set", lambda r: r["set"], ""),
        ("model", lambda r: r["model"], ""),
        ("method", label, ""),
        ("beta", lambda r: r.get("beta"), "g"),
        ("gamma", lambda r: r.get("gamma"), "g"),
        ("bytes", lambda r: r["ram_row_bytes"], ",.1f"),
        ("fixed KB", lambda r: _part(r["ram_fixed_bytes"], 1000), ",.0f"),
        ("disk", lambda r: r["disk_row_bytes"], ",.0f"),
        ("KiB read", lambda r: r["read_query_bytes"] / 1024, ",.0f"),
        ("KiB cold", lambda r: r["read_pages_query_bytes"] / 1024, ",.0f"),
        ("nDCG@10", lambda r: r["ndcg@10"], ".2f"),
        ("diff.", lambda r: r["ndcg@10_delta"], "+.2f"),
        ("low", lambda r: r["ndcg@10_low"], "+.2f"),
        ("high", lambda r: r["ndcg@10_high"], "+.2f"),
        ("MRR@10", lambda r: r["mrr@10"], ".2f"),
        ("recall@10", lambda r: r["recall@10"], ".2f"),
        ("recall@100", lambda r: r.get("recall@100"), ".2f"),
        ("agreement@10", lambda r: r["agreement@10"], ".3f"),
        ("p50 ms", lambda r: r["p50_ms_one"], ".3f"),
        ("p95", lambda r: r["p95_ms_one"], ".3f"),
        ("p99", lambda r: r["p99_ms_one"], ".3f"),
        ("p50 all", lambda r: r["p50_ms_all"], ".3f"),
        ("queries/s", lambda r: r["queries_per_s"], ",.0f"),
        ("fit s", lambda r: r.get("fit_s"), ".2f"),
        ("build s", lambda r: r["build_s"], ".2f"),
        ("grew", lambda r: r["process_row_bytes"], ",.0f"),
        ("mapped", lambda r: r["process_files_row_bytes"], ",.0f"),
    ]
    lines = [
        [number(value(row), form) if form else text(value(row)) for _, value, form in columns]
        for row in rows
        if "error" not in row
    ]
    note = (
        "Bytes a vector from the structures; disk: bytes a vector. Read: KiB of rows on disk that "
        "a query looks at; cold: of the pages they lie on. Intervals: 95%, paired with float32. "
        "Milliseconds: one query on one thread, pages in the system's cache. Grew and mapped: "
        "bytes a vector that the process got, its own and of files."
    )
    return Table("All rows", note, [name for name, _, _ in columns], lines)


def encoders(rows: Sequence[Row]) -> list[Table]:
    """Each model's encoders, the fastest on short texts first."""
    tables = []
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
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
        heads = ["", "short texts/s", "long texts/s", "tokens/s", "share of the limit"]
        heads += ["one text, p50 ms", "p95 ms", "memory, MB", "STS average"]
        tables.append(Table(model, note, heads, [_encoder(row) for row in told]))
    return tables


def _encoder(row: Row) -> list[Cell]:
    share = row.get("long_share")
    return [
        text(row["encoder"]),
        number(row["short_texts_per_s"], ",.0f"),
        number(row["long_texts_per_s"], ",.1f"),
        number(row["long_tokens_per_s"], ",.0f"),
        Cell("", "") if share is None else Cell(f"{share:.0%}", share),
        number(row["p50_ms_single"], ".1f"),
        number(row["p95_ms_single"], ".1f"),
        number(row["peak_bytes"] / 1e6, ",.0f"),
        number(row.get("sts_average"), ".2f"),
    ]


def _part(value: float | None, by: float) -> float | None:
    return None if value is None else value / by
