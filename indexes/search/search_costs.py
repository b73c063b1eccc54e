"""Measured costs of the two methods of filtered search on this machine and index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Self

import numpy as np

from ..arrays import Matrix, Rows

TIMED_ROWS, TIMED_QUERIES = 500, 5
TIMING_S = 0.05
"""Timing stops after this many seconds; one measurement of so slow a search is enough."""
SPREAD = 16
"""Timing uses two filters: all rows, and every 16th row."""
Search = Callable[[Matrix, Rows], object]
"""Search for queries (q, d) among rows (n,)."""


@dataclass(frozen=True)
class Line:
    """Seconds for n rows: ``fixed + each * n``, neither below zero.

    >>> line = Line.through((10, 0.3), (20, 0.5))
    >>> round(line(15), 6)
    0.4
    """

    fixed: float
    each: float

    @classmethod
    def through(cls, one: tuple[int, float], other: tuple[int, float]) -> Self:
        """Fit a line through two measurements (rows, seconds)."""
        (few, short), (many, long) = sorted((one, other))
        each = max(long - short, 0.0) / (many - few) if many > few else 0.0
        return cls(max(long - each * many, 0.0), each)

    def __call__(self, n: int) -> float:
        """Seconds for n rows."""
        return self.fixed + self.each * n


@dataclass(frozen=True)
class Costs:
    """Seconds by the number of allowed rows, with the files in the system's cache.

    Attributes
    ----------
    total : rows of the index when timed.
    exact : exact search for one query.
    product : scoring one row for each further query, once it is read.
    by_codes : search by codes, for one query of average difficulty.
    """

    total: int
    exact: Line
    product: float
    by_codes: Line

    @classmethod
    def measured(cls, queries: Matrix, total: int, exact: Search, by_codes: Search) -> Self:
        """Time a few queries (q, d) on an index of `total` rows; takes less than a second."""
        size = min(TIMED_ROWS, total)
        parts = [np.arange(i, total, total // size)[:size] for i in range(TIMED_QUERIES)]
        batch = np.repeat(queries[:1], 1 + SPREAD, axis=0)
        few = _usual([partial(exact, queries[:1], part[: size // 20 + 1]) for part in parts])
        one = _usual([partial(exact, queries[:1], part) for part in parts])
        many = _usual([partial(exact, batch, part) for part in parts])

        def down(rows: Rows) -> tuple[int, float]:
            return len(rows), _usual([partial(by_codes, query[None], rows) for query in queries])

        return cls(
            total,
            Line.through((size // 20 + 1, few), (size, one)),
            max(many - one, 0.0) / (SPREAD * size),
            Line.through(down(np.arange(0, total, SPREAD)), down(np.arange(total))),
        )

    def prefer_codes(self, rows: int, queries: int) -> bool:
        """Return whether search by codes is faster for this many rows and queries."""
        all_rows = self.exact(rows) + (queries - 1) * self.product * rows
        return queries * self.by_codes(rows) < all_rows


def _usual(tasks: Sequence[Callable[[], object]]) -> float:
    """Median seconds of tasks, each run once before to warm the system's cache.

    A task is not timed right after its warm-up: the processor's cache would make it too fast.
    """
    seconds: list[float] = []
    for timed in (False, True):
        spent = 0.0
        for task in tasks:
            if spent > TIMING_S:
                break
            start = perf_counter()
            task()
            spent += perf_counter() - start
            if timed:
                seconds.append(perf_counter() - start)
    return float(np.median(seconds))
