"""Proofs of an agreement, by queries that chose nothing.

Many settings are tried, and queries are added. Nevertheless, at most 5% of all searches may prove
something false. Each number of candidates of each index is a hypothesis:

- Those of an index are tested from the most candidates down; after the first that isn't proved,
  fewer are not considered. So a false one is proved only if the one of the most candidates among
  the false ones is, and together they err no more often than that one (fixed-sequence testing).
- Queries are added in stages, by a bound that holds after all stages at once: see `betting_bound`.
- Indexes share the error: the first one gets a half, the next ones a sixth, a twelfth and so on.
  Which place an index has depends only on the queries that choose.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.bounds import betting_bound

from ..query_pools import Draw
from ..recall_trials import NEAREST, Pool, Ranks, recalls
from .targets import error_at, stages

MOST_NEEDED = 1_000_000
"""Largest number of queries to advise."""

Shares = NDArray[np.float64]
"""(q,): agreement of each query."""


class Proving:
    """Queries for proofs of an agreement, none at first; so many as are `available` can be drawn.

    `exact` finds the rows (q, 10) that are nearest to queries.
    """

    def __init__(
        self, agreement: float, available: int, draw: Draw, exact: Callable[[Pool], Rows]
    ) -> None:
        self.agreement, self.stages = agreement, stages(available)
        self._draw, self._exact = draw, exact
        self.pool: Pool | None = None
        self.truth: Rows = np.empty((0, NEAREST), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.truth)

    def add_queries(self) -> bool:
        """Add the queries of the next stage; returns False if no stage is left."""
        left = [stage for stage in self.stages if stage > len(self)]
        if not left:
            return False
        new = self._draw(left[0] - len(self))
        self.truth = np.concatenate([self.truth, self._exact(new)])
        self.pool = new if self.pool is None else self.pool.joined(new)
        return True

    def bound(self, shares: Shares, place: int) -> float:
        """The agreement that the first queries prove for the index at a place, from 1 on."""
        return betting_bound(shares, error_at(place), self.stages)

    def is_promising(self, shares: Shares, place: int) -> bool:
        """True if all available queries, with shares like these, would prove the agreement."""
        if shares.mean() < self.agreement:
            return False
        return self.bound(np.resize(shares, self.stages[-1]), place) >= self.agreement

    def least_promising(self, ranks: Ranks, counts: Sequence[int], place: int) -> int | None:
        """The fewest candidates that are promising; None if none are."""
        least = bisect_left(
            counts, True, key=lambda count: self.is_promising(recalls(ranks, count), place)
        )
        return counts[least] if least < len(counts) else None

    def least_proved(self, ranks: Ranks, counts: Sequence[int], place: int) -> int | None:
        """The fewest candidates that are proved, and all more of them; None if the most are not."""
        proved = None
        for count in reversed(counts):
            if self.bound(recalls(ranks, count), place) < self.agreement:
                break
            proved = count
        return proved

    def needed(self, shares: Shares, place: int) -> int | None:
        """About how many queries with such shares would prove the agreement; None for too many."""
        count = float(self.stages[-1])
        while count <= MOST_NEEDED:
            alike = np.resize(shares, round(count))
            if betting_bound(alike, error_at(place)) >= self.agreement:
                return int(float(f"{count:.1e}"))
            count *= 1.25
        return None
