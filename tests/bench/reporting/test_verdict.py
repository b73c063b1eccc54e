"""Sentences at the end of a run and at the beginning of the page, worked out from rows."""

from __future__ import annotations

from typing import Any

from slimdex.bench.reporting.verdict import (
    cold_line,
    default_line,
    encode_line,
    fine_print,
    peers_line,
    retrieval_line,
    search_line,
    sts_line,
    verdict,
)
from slimdex.bench.rows import FOLDER, Row, read_rows

EXACT: Row = {
    "set": "a",
    "model": "m",
    "documents": 5000,
    "dim": 384,
    "method": "float32",
    "effort": 0,
    "ram_row_bytes": 1536.0,
    "ram_fixed_bytes": 0,
    "disk_row_bytes": 1536.0,
    "compression": 1.0,
    "ndcg@10": 64.51,
    "ndcg@10_delta": 0.0,
    "p50_ms_one": 0.9,
}


def ours(delta: float, low: float, high: float, ms: float = 0.18, **more: Any) -> Row:
    settings = {"method": "slimdex", "k": 192, "beta": 0.0, "gamma": 0.25, "kind": "pq"}
    sizes = {"effort": 200, "ram_row_bytes": 24.0, "ram_fixed_bytes": 900_000, "compression": 64.0}
    figures = {"ndcg@10": 64.51 + delta, "ndcg@10_delta": delta, "p50_ms_one": ms}
    interval = {"ndcg@10_low": low, "ndcg@10_high": high, "disk_row_bytes": 801.2}
    return EXACT | settings | sizes | figures | interval | more


def test_a_win_a_loss_and_no_difference_are_said_as_such() -> None:
    assert retrieval_line([EXACT, ours(0.52, 0.1, 1.0)]) == (
        "In 1/64 of float32's memory slimdex answers better on a (nDCG@10 65.03 against 64.51); "
        "a query takes 0.18 ms, float32's 0.90 ms (5,000 vectors, one thread)."
    )
    lost = retrieval_line([EXACT, ours(-3.0, -4.0, -2.0, ms=1.8)])
    assert "answers worse on a (nDCG@10 61.51 against 64.51); a query takes 1.80 ms" in lost
    level = retrieval_line([EXACT, ours(-0.2, -0.6, 0.3, ms=0.92)])
    assert "answers as well on a (nDCG@10 64.31 against 64.51)" in level


def test_what_was_not_measured_is_said() -> None:
    failed = ours(0, 0, 0) | {"error": "out of memory"}
    assert retrieval_line([EXACT, failed]) == "a: no result; failed: slimdex (out of memory)"
    assert retrieval_line([EXACT]) == "a: no result"
    assert peers_line([failed]) == "a: no result; failed: slimdex (out of memory)"


def peer(method: str, recall: float, ms: float, memory: float, **more: Any) -> Row:
    figures = {"agreement@10": recall, "p50_ms_one": ms, "ram_row_bytes": memory}
    return EXACT | {"method": method, **figures} | more


PEERS = [
    peer("float32", 1.0, 3.0, 1536.0),
    peer("slimdex 1/64", 0.98, 0.1, 24.0),
    peer("slimdex 1/64", 0.991, 0.2, 24.0, ram_fixed_bytes=25_000),
    peer("graph", 0.97, 0.05, 1684.0),
    peer("graph", 0.995, 0.3, 1684.0),
    peer("scan", 1.0, 30.0, None, process_row_bytes=50, process_files_row_bytes=38),  # type: ignore[arg-type]
]


def test_peers_are_compared_where_they_reach_the_agreement() -> None:
    assert peers_line(PEERS) == (
        "Slimdex: at agreement 0.99 with exact search it answers in 0.20 ms with 29 bytes a "
        "vector, where the fastest other, graph, takes 0.30 ms with 1,684 and float32 3.00 ms "
        "with 1,536 (a, 5,000 vectors, one thread)."
    )
    short = [r for r in PEERS if r["agreement@10"] != 0.991]
    assert peers_line(short).startswith(
        "Slimdex: it reaches agreement 0.980 with exact search at most, in 0.10 ms with 24 bytes"
    )
    assert peers_line(PEERS[:3]).endswith(
        "where float32 takes 3.00 ms with 1,536 (a, 5,000 vectors, one thread)."
    )


def test_the_verdict_counts_collections_and_names_the_fastest_other() -> None:
    sets = [(0.5, 0.1, 1.0), (-0.1, -0.5, 0.2), (-2.0, -3.0, -1.0)]
    rows = []
    for i, (delta, low, high) in enumerate(sets):
        place = {"set": f"s{i}", "documents": 1000 * (i + 1)}
        rows += [EXACT | place, ours(delta, low, high) | place]
    quality = (
        "In 1/64 of float32's memory slimdex answers better on 1 of 3 collections, as well on "
        "1 and worse on 1 (nDCG@10 -0.53 points on average, -2.00 to +0.50)"
    )
    speed = (
        "at agreement 0.99 with exact search it answers in 0.20 ms with 29 bytes a vector, where "
        "the fastest other, graph, takes 0.30 ms with 1,684 and float32 3.00 ms with 1,536 "
        "(a, 5,000 vectors, one thread)."
    )
    assert verdict(rows, PEERS) == f"{quality}; {speed}"
    times = "a query takes 0.18 ms, float32's 0.90 ms (s2, 3,000 vectors, one thread)."
    assert verdict(rows, []) == f"{quality}; {times}"
    assert verdict([EXACT], []) == ""
    assert fine_print(rows) == "Beside that memory slimdex keeps 801 bytes a vector on disk."


def store(method: str, recall: float, ms: float, own: int, files: int) -> Row:
    times = {"p50_ms_total_one": ms, "p50_ms_encode_one": 4.5}
    memory = {"store_bytes": own, "store_files_bytes": files}
    return {"set": "a", "model": "m", "method": method, "agreement@10": recall, **times, **memory}


def test_a_search_from_text_to_documents_is_held_against_the_fastest_other() -> None:
    rows = [
        store("slimdex", 0.87, 6.0, 20_000_000, 15_400_000),
        store("slimdex own order", 0.992, 5.5, 20_000_000, 15_400_000),
        store("graph", 0.97, 5.1, 10_000_000, 0),
        store("graph", 0.994, 7.25, 90_000_000, 10_000_000),
        store("scan", 1.0, 30.0, 1_000_000, 0),
    ]
    ours = (
        "a: slimdex takes 6.00 ms from a text to documents, 1.50 more than encoding it, and 35 MB"
    )
    line = (
        f"{ours} beside the encoder; the fastest other at agreement 0.99, graph, 7.25 ms and 100 MB"
    )
    assert search_line(rows) == line
    assert search_line(rows[:3]) == f"{ours} beside the encoder"
    by_vectors = line.replace("slimdex takes 6.00", "slimdex own order takes 5.50")
    assert search_line(rows[1:]) == by_vectors.replace("1.50 more", "1.00 more")
    assert search_line(rows[2:]) == "a: no result, slimdex failed or was not measured"
    broke = {"set": "a", "method": "slimdex", "error": "broke"}
    assert search_line([broke]) == "a: no result, slimdex failed or was not measured"


def test_the_default_index_is_told_from_text_to_documents() -> None:
    row = store("slimdex", 0.87, 6.0, 20_000_000, 15_400_000) | {"effort": 0, "documents": 1234}
    row |= {"memory_bytes": 90_000_000, "memory_files_bytes": 130_000_000}
    row |= {"disk_row_bytes": 1431.4, "processor": "P", "load": 0.26, "dim": 384}
    row |= {"rows": 50_000, "code_bytes": 1_200_000}
    assert default_line(row) == (
        "With m, a search of the 1,234 documents of a takes **6.00 ms from the text to its "
        "documents**, 4.50 ms of it for encoding (medians, one thread of P, load 0.3 before). The "
        "codes of its 50,000 passages take **1.2 MB** (24 bytes each instead of float32's 1,536), "
        "all that the index and its libraries hold in memory is **20 MB**, and **15 MB** are pages "
        "of their files, which the system may drop. The process, with Python and the encoder, "
        "holds 90 MB and 130 MB of pages of files. On disk a document takes 1,431 bytes, with its "
        "text and words."
    )
    assert default_line(row | {"effort": 2000}) == ""
    assert default_line(row | {"method": "graph"}) == ""
    assert default_line(row | {"code_bytes": None, "error": "broke"}) == ""


def test_a_cold_search_is_held_against_a_cached_one() -> None:
    known: Row = {"set": "a", "limit_bytes": None}
    cached = known | {"way": "cached", "p50_ms_total": 6.04, "read_query_bytes": 0.0}
    dropped = known | {"way": "dropped", "p50_ms_total": 21.5, "read_query_bytes": 1_234_567.0}
    limited = [row | {"limit_bytes": 10**9, "p50_ms_total": 99.0} for row in (cached, dropped)]
    assert cold_line([cached, dropped, *limited]) == (
        "a: from a text to documents 21.5 ms with the index's files dropped from memory, 6.0 with "
        "them there; 1,235 KB are read from disk for a query"
    )
    assert cold_line([cached]) == "a: no result, not measured"
    failed = known | {"way": "cached", "error": "broke"}
    assert cold_line([failed, dropped]) == "a: no result, broke"


def test_the_other_experiments_have_a_line_each() -> None:
    rows = read_rows(FOLDER, "encode")
    auto = next(row for row in rows if row["encoder"] == "slimdex auto")
    other = max(
        (r for r in rows if "error" not in r and "slimdex" not in r["encoder"]),
        key=lambda r: float(r["short_texts_per_s"]),
    )
    share = auto["short_texts_per_s"] / other["short_texts_per_s"]
    assert encode_line(rows) == (
        "all-MiniLM-L6-v2: slimdex encodes 2,131 short texts a second and 115 long ones, "
        f"{share:.2f} and {auto['long_texts_per_s'] / other['long_texts_per_s']:.2f} times the "
        f"rate of {other['encoder']}"
    )
    assert encode_line([auto]).endswith("short texts a second and 115 long ones")
    rows = [r for r in read_rows(FOLDER, "sts") if r["model"] == "all-MiniLM-L6-v2"]
    assert sts_line(rows) == (
        "all-MiniLM-L6-v2, english: Spearman x 100 averages 78.88 over 7 sets with the vectors as "
        "they are (mean@-1), 73.54 whitened (-5.34), 79.05 in 192 of 384 dimensions (+0.18)"
    )
    fitted = [row for row in rows if row["fit"]]
    assert sts_line(fitted) == "all-MiniLM-L6-v2, english: no result, nothing without a reducer"
