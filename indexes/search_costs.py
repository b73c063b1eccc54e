"""Costs: what two ways to search take on this machine, timed on the index itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Self

import numpy as np

from .arrays import Matrix, Rows

TIMED_ROWS, TIMED_QUERIES = 500, 5
TIMING_S = 0.05
"""After so many seconds no further query is timed: one is enough to tell what is that slow."""
SPREAD = 16
"""The filters that are timed allow all rows, and one row in so many."""
Way = Callable[[Matrix, Rows], object]
"""Searches for queries (q, d) among rows (n,)."""


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
        """The line through two timings, each of them how many and the seconds."""
        (few, short), (many, long) = sorted((one, other))
        each = max(long - short, 0.0) / (many - few) if many > few else 0.0
        return cls(max(long - each * many, 0.0), each)

    def __call__(self, n: int) -> float:
        """Seconds for n."""
        return self.fixed + self.each * n


@dataclass(frozen=True)
class Costs:
    """Seconds by the number of allowed rows, with the files in the system's cache.

    Attributes
    ----------
    total : rows of the index when it was timed.
    exact : of scoring all of them for one query.
    product : of scoring one of them for one query more, once it is read.
    by_codes : of going down them in the order of their codes, for one query of usual difficulty.
    """

    total: int
    exact: Line
    product: float
    by_codes: Line

    @classmethod
    def measured(cls, queries: Matrix, total: int, exact: Way, by_codes: Way) -> Self:
        """Timed with a few queries (q, d), in less than a second, on an index of so many rows."""
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
        """Whether so many queries among so many rows are answered sooner by the codes."""
        all_rows = self.exact(rows) + (queries - 1) * self.product * rows
        return queries * self.by_codes(rows) < all_rows


def _usual(tasks: Sequence[Callable[[], object]]) -> float:
    """The median time of tasks in seconds, each done once before for the system's cache.

    They are not repeated at once: what the processor's own cache holds makes the next search no
    faster.
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
