"""Observations: what the rows of the benches say of bytes, seconds and candidates.

Bytes are those of any machine; seconds are of the processors that `slimdex bench sizes` ran on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from slimdex.indexes.choices import CANDIDATES_TO

from ..rows import Row, read_rows
from .laws import Law, Observation
from .workload import PLANNED, Workload

CODE = ("kept", "ids")
FIXED = ("once", "reducer", "metric", "kept", "centroids", "lists")
SEARCH = ("once", "all_codes", "some_codes", "centroids", "candidates", "rescored")
DISK = tuple(f"disk_{part}_bytes" for part in ("vectors", "norms", "codes", "catalog", "documents"))
"""Columns of what an index takes on disk."""
PARTS = {"search_half": 0.5, "search": 1.0, "search_double": 2.0}
"""Part of a row of sizes -> its candidates, of the index's own number."""
LEAST_ROWS = 50_000
"""Of an index that others are told by: what smaller ones take is mostly done once."""
PAGE = 4096
AUTO_ENCODER = "slimdex auto"
ENOUGH, LEAST_MISSED = 0.85, 0.0005
"""Recalls by which candidates are told: below it is not asked for, above chance decides."""


class Rows:
    """The rows of a folder, by what they tell.

    Raises
    ------
    InputError
        If rows of sizes or encoders are missing.
    """

    def __init__(self, folder: Path) -> None:
        self.sizes = [row for row in read_rows(folder, "sizes") if row["kind"] in PLANNED]
        self.encode = [row for row in read_rows(folder, "encode") if "error" not in row]
        self.retrieval = [
            row
            for row in read_rows(folder, "retrieval", needed=False)
            if row.get("method") == "slimdex" and row["kind"] in PLANNED and row["candidates"]
        ]
        self.stored = read_rows(folder, "stored", needed=False)
        self.cold = read_rows(folder, "cold", needed=False)
        self.peers = read_rows(folder, "peers", needed=False)
        self.tune = read_rows(folder, "tune", needed=False)


def sized(row: Row, candidates: int | None = None) -> Workload:
    """The workload that a row of sizes or retrieval was measured at."""
    count = count_of(row)
    text = row.get("text_bytes", 0) / count
    return Workload(
        count, row["dim"], row["k"], row["kind"], 0, text_bytes=text, candidates=candidates
    )


def of_column(rows: Iterable[Row], column: str, terms: tuple[str, ...]) -> list[Observation]:
    """A column as it stands."""
    return [sized(row).seen(row[column], terms, row["processor"]) for row in rows]


def large(rows: Iterable[Row]) -> list[Row]:
    """Rows of indexes that are not small."""
    return [row for row in rows if count_of(row) >= LEAST_ROWS]


def count_of(row: Row) -> int:
    """Rows of the index that was measured."""
    return int(row["rows"] if "rows" in row else row["documents"])


def of_indexes(rows: Iterable[Row], code: Law, fixed: Law) -> list[Observation]:
    """Indexes in memory, by what the laws of their two parts say."""
    found = []
    for row in rows:
        workload = sized(row)
        terms = workload.terms()
        parts = {"parts": code(terms) * workload.documents + fixed(terms)}
        found.append(replace(workload.seen(index_bytes(row), (), row["processor"]), terms=parts))
    return found


def of_process(rows: Iterable[Row]) -> list[Observation]:
    """Memory of a process, by the bytes of its index and by rows."""
    return [
        Observation(
            row["memory_bytes"],
            {"once": 1.0, "index": index_bytes(row), "rows": float(row["rows"])},
            {"rows": row["rows"], "dim": row["dim"], "lists": sized(row).lists},
            row["processor"],
        )
        for row in rows
    ]


def index_bytes(row: Row) -> float:
    """Codes, reducer and metric of a measured index."""
    return float(count_of(row) * row["ram_row_bytes"] + row["ram_fixed_bytes"])


def of_searches(rows: Iterable[Row]) -> list[Observation]:
    """Seconds of a thread from a vector to rows, by candidates too."""
    return [
        sized(row, round(factor * row["candidates"])).seen(
            row[f"p50_ms_{part}_cpu"] / 1e3, SEARCH, row["processor"]
        )
        for row in rows
        for part, factor in PARTS.items()
    ]


def of_hits(rows: Iterable[Row]) -> list[Observation]:
    """Seconds of a thread from rows to documents."""
    return [
        sized(row).seen(
            (row["p50_ms_hits_cpu"] - row["p50_ms_search_cpu"]) / 1e3, ("once",), row["processor"]
        )
        for row in rows
        if row["p50_ms_hits_cpu"] > row["p50_ms_search_cpu"]
    ]


def of_vectors(rows: Iterable[Row], stored: str) -> list[Observation]:
    """Bytes of a vector on disk."""
    return [
        Observation(row["disk_row_bytes"], {"dim": float(row["dim"])}, {"dim": row["dim"]}, "")
        for row in rows
        if row["way"] == stored
    ]


def of_encoding(rows: Iterable[Row]) -> list[Observation]:
    """Seconds of a core for a token of documents, by the model's operations for one."""
    return [
        Observation(
            row["threads"] / row[f"{size}_tokens_per_s"],
            {"operations": float(row["flops_per_token"])},
            {"operations": row["flops_per_token"]},
            row["processor"],
        )
        for row in rows
        for size in ("short", "long")
        if row["encoder"] == AUTO_ENCODER
    ]


def of_queries(rows: Iterable[Row]) -> list[Observation]:
    """Seconds until a sentence is a vector."""
    return [
        Observation(
            row["p50_ms_single"] / 1e3,
            {"operations": float(row["flops_per_token"])},
            {"operations": row["flops_per_token"]},
            row["processor"],
        )
        for row in rows
        if row["encoder"] == AUTO_ENCODER
    ]


def of_cold(rows: Sequence[Row]) -> list[Observation]:
    """Seconds that a search takes longer for each page that comes from the disk."""
    found = []
    for row in rows:
        warm = [
            other
            for other in rows
            if other["way"] == "cached"
            and all(other[name] == row[name] for name in ("set", "model", "limit_bytes"))
        ]
        if row["way"] == "dropped" and "error" not in row and warm:
            longer = (row["p50_ms_total"] - warm[0]["p50_ms_total"]) / 1e3
            pages = (row["cached_vectors_bytes"] + row["cached_norms_bytes"]) / PAGE
            at = {"rows": row["documents"]}
            found.append(Observation(longer, {"pages": pages}, at, row["processor"]))
    return found


def of_recall(peers: Iterable[Row], tuned: Iterable[Row]) -> list[Observation]:
    """Candidates by the share of the ten nearest that they miss, both as logarithms.

    Of indexes of pq at half of the dimensions, as they are by default, of 50,000 rows or more.
    """
    measured = [
        (row, row["agreement@10"], row["effort"])
        for row in peers
        if row["method"] == "slimdex 1/64"
    ]
    measured += [
        (row, row["recall@10_total"], row["candidates"])
        for row in tuned
        if row.get("what") == "target" and row["kind"] == "pq" and 2 * row["k"] == row["dim"]
    ]
    return [
        recalled(row["documents"], found, candidates, row["processor"])
        for row, found, candidates in measured
        if row["documents"] >= LEAST_ROWS
        and ENOUGH <= found <= 1 - LEAST_MISSED
        and "static" not in row["model"]
    ]


def recalled(rows: int, recall: float, candidates: float, processor: str) -> Observation:
    """One recall, and the candidates it took, as `Model.candidates` reads it."""
    each = math.log(candidates / math.cbrt(rows / CANDIDATES_TO))
    terms = {"once": 1.0, "missed": -math.log(1 - recall)}
    return Observation(each, terms, {"rows": rows, "missed": 1 - recall}, processor)
