"""Benchmarks: the figures of its page."""

from __future__ import annotations

from collections.abc import Sequence

from slimdex.bench.experiments import search_study, tuning_study
from slimdex.bench.reporting.findings import (
    FASTEST_AT,
    fastest_at,
    of_task,
    resident_bytes,
    uncompressed_row,
)
from slimdex.retrieval.quality.tuning.metric_choice import CELLS
from slimdex.retrieval.quality.tuning.tuner import CERTIFIED

from ..links import Figure, rows
from .readme import small, usual


def exact(name: str) -> float:
    """nDCG@10 of exact search by all-MiniLM-L6-v2."""
    found = uncompressed_row(of_task(rows("retrieval"), (name, "all-MiniLM-L6-v2")))
    assert found is not None
    return float(found["ndcg@10"])


def held() -> Sequence[float]:
    """The recall of the picture, and bytes a vector of two methods at it."""
    peers = fastest_at(of_task(rows("peers"), ("debian-desc", "all-MiniLM-L6-v2")))
    by_name = {row["method"]: row for row in peers}
    found = [by_name[name] for name in ("slimdex 1/64", "hnswlib")]
    assert all(row["agreement@10"] >= FASTEST_AT for row in found)
    return [FASTEST_AT, *map(resident_bytes, found)]


FIGURES = [
    Figure("level with float32 down to 1/128 of its bytes", lambda: [small()["compression"]]),
    Figure(
        "*1/64* and *1/128* are the share of float32's bytes",
        lambda: [usual()["compression"], small()["compression"]],
    ),
    Figure(
        "*1/64* is slimdex's default: half a bit for each dimension. For a query, the vectors of "
        "200 candidates",
        lambda: [usual()["compression"], usual()["effort"]],
    ),
    Figure("*1/128* has", lambda: [small()["compression"]]),
    Figure(
        "*slimdex 1/64* and *1/128* keep",
        lambda: [usual()["compression"], small()["compression"]],
    ),
    Figure("reaches an agreement of 0.99", lambda: [FASTEST_AT]),
    Figure(
        "at agreement 0.99 with exact search on debian-desc: slimdex takes 29 bytes, hnswlib 1,684",
        lambda: held(),
    ),
    Figure(
        "exact search's 64.51 and 50.17 with all-MiniLM-L6-v2",
        lambda: [exact("scifact"), exact("arguana")],
    ),
    Figure("at most 2,000, which tuning does not see", lambda: [tuning_study.REAL]),
    Figure("the best of 25 cells", lambda: [len(CELLS)]),
    Figure(
        "100 to 400 candidates) and, for each, 1,000 draws of 500 among 3,000 queries",
        lambda: [
            *(tuning_study.CANDIDATES[0], tuning_study.CANDIDATES[-1]),
            *(tuning_study.TRIALS, CERTIFIED, tuning_study.POOL),
        ],
    ),
    Figure("the lowest that finds 0.99 of the exact", lambda: [search_study.ENOUGH]),
]
