"""Inverted lists: the figures of their page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slimdex.bench.inverted.list_study import NOISE
from slimdex.bench.reporting.findings import FASTEST_AT
from slimdex.bench.reporting.tables.lists import fastest_of
from slimdex.indexes.codes.kinds import ivf_lists
from slimdex.indexes.options import usual_candidates

from ..links import Figure, rows

MOST, HALF, TEN_MILLION = 1_183_499, 500_000, 10_000_000
METHODS = ("pq", "ivf-pq")
SETS = "squad-para-5k, climate-fever-evidence, scifact, vaswani-npl, cranfield"


def fastest(queries_of: str, documents: int = MOST) -> Sequence[float]:
    """Milliseconds of `pq` and of `ivf-pq`."""
    found = (
        rows("lists", documents=documents, method=method, queries_of=queries_of)
        for method in METHODS
    )
    return [fastest_of(each)["p50_ms"] for each in found]


def times(method: str) -> float:
    """How many lists a method has for one of the default."""
    (lists,) = {row["lists"] for row in rows("lists", method=method)}
    return float(lists / ivf_lists(MOST))


def ten_million() -> Sequence[float]:
    """Candidates, the default, milliseconds of `pq` and `ivf-pq`, and seconds to build."""
    pq, lists = (
        fastest_of(rows("lists", documents=TEN_MILLION, method=method)) for method in METHODS
    )
    assert pq["candidates"] == lists["candidates"]
    return [
        *(lists["candidates"], usual_candidates(TEN_MILLION)),
        *(pq["p50_ms"], lists["p50_ms"], lists["build_s"]),
    ]


FIGURES = [
    Figure("289 lists", lambda: [ivf_lists(MOST)]),
    Figure("At 1,183,499 documents and an agreement of 0.99", lambda: [MOST, FASTEST_AT]),
    Figure("takes 2.49 ms and 1.97 ms with the queries", lambda: fastest(SETS)),
    Figure("2.69 and 1.87 ms", lambda: fastest("squad-sent-nqg")),
    Figure("At 500,000 documents, takes 1.36 ms and 1.69 ms", lambda: [HALF, *fastest(SETS, HALF)]),
    Figure("*16-times-the-lists*", lambda: [times("16-times-the-lists")]),
    Figure("10,000,000 documents", lambda: [TEN_MILLION]),
    Figure("a cosine of .89", lambda: [1 / np.sqrt(1 + NOISE**2)]),
    Figure(
        "1,500 candidates are needed instead of the default 1,100. then takes 16.88 ms and "
        "5.42 ms, and 186 s",
        ten_million,
    ),
]
