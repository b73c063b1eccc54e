"""Costs: what the parts of a search take on this machine, timed on the index itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Self

import numpy as np

from .arrays import Rows
from .metric import Metric
from .vector_index import VectorIndex

TIMED_ROWS, TIMED_QUERIES, TIMES = 1000, 16, 5
SPREAD = 16
"""The second filter that codes are searched under allows one row in so many."""


@dataclass(frozen=True)
class Line:
    """Seconds for n of something: ``fixed + each * n``, neither below zero.

    >>> line = Line.through((10, 0.3), (20, 0.5))
    >>> round(line(15), 6)
    0.4
    """

    fixed: float
    each: float

    @classmethod
    def through(cls, one: tuple[int, float], other: tuple[int, float]) -> Self:
        """The line through two timings, each of them how many and the seconds."""
        (few, short), (many, long) = sorted((one, other))
        each = max(long - short, 0.0) / (many - few) if many > few else 0.0
        return cls(max(long - each * many, 0.0), each)

    def __call__(self, n: float) -> float:
        return self.fixed + self.each * n


@dataclass(frozen=True)
class Costs:
    """Seconds of one query's work, with the files in the system's cache.

    Attributes
    ----------
    total : rows of the index when it was timed.
    rows : of reading so many vectors and scoring them for one query.
    product : of scoring one vector that was read for one more query.
    codes : of finding the nearest codes of one query, by `VectorIndex.work`.
    """

    total: int
    rows: Line
    product: float
    codes: Line

    @classmethod
    def measured(cls, metric: Metric, index: VectorIndex, dim: int, count: int) -> Self:
        """Timed in a few milliseconds; the index has rows of `dim` and is asked for `count`."""
        total = len(index)
        some = np.linspace(0, total - 1, min(TIMED_ROWS, total)).astype(np.int64)
        few = some[:: max(len(some) // 50, 1)]
        queries = metric.vectors.take(some[:TIMED_QUERIES])
        short = _seconds(lambda: metric.scores(queries[:1], few))
        long = _seconds(lambda: metric.scores(queries[:1], some))
        many = _seconds(lambda: metric.scores(queries, some))
        further = max(many - long, 0.0) / (max(len(queries) - 1, 1) * len(some))
        probe = np.ones((1, dim), dtype=np.float32)

        def timed(rows: Rows) -> tuple[int, float]:
            wanted = min(count, len(rows))
            work = index.work(wanted, len(rows))
            return work, _seconds(lambda: index.search(probe, wanted, rows))

        codes = Line.through(timed(np.arange(total)), timed(np.arange(0, total, SPREAD)))
        return cls(total, Line.through((len(few), short), (len(some), long)), further, codes)

    def exact(self, rows: int, queries: int = 1) -> float:
        """Of scoring all of so many rows for so many queries."""
        return self.rows(rows) + (queries - 1) * self.product * rows


def _seconds(task: Callable[[], object]) -> float:
    """The shortest of a few runs: the others were disturbed, or the first."""
    best = np.inf
    for _ in range(TIMES):
        start = perf_counter()
        task()
        best = min(best, perf_counter() - start)
    return float(best)
