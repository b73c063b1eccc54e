"""Settings search: the settings of least memory that reach a target, by proof.

Settings are built in memory, smallest first, and measured by queries that choose. Those that are
promising are put to the proof by other queries, until one is proved or no settings are left.

Nevertheless, at most 5% of all searches may prove something false. Each number of candidates of
each index is a hypothesis:

- Those of an index are tested from the most candidates down; after the first that isn't proved,
  fewer are not considered. So a false one is proved only if the one of the most candidates among
  the false ones is, and together they err no more often than that one (fixed-sequence testing).
- Queries are added in stages, by a bound that holds after all stages at once: see `betting_bound`.
- Indexes share the error: the first one gets a half, the next ones a sixth, a twelfth and so on.
  Which place an index has depends only on the queries that choose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import kind_named
from slimdex.indexes.confidence_bound import betting_bound
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.settings import Settings

from .metric_choice import Cell
from .query_pools import Draw
from .recall_trials import ERROR, NEAREST, Pool, Ranks, Trials, recalls
from .tuning_targets import CHOSEN, Target, TrialResult, error_at, stages

TIMED = 200

CANDIDATES = (25, 35, 50, 70, 100, 140, 200, 280, 400, 560, 800, 1100, 1600, 2200, 3200)
FEWEST_LIMIT = 200
ONE_ROW_IN = 20
"""At most one row in this many is a candidate, or `FEWEST_LIMIT` rows if that is more: with more
candidates, codes hardly select."""
LISTS_ROWS = 100_000
"""Rows from which inverted lists are tried."""
Grid: TypeAlias = Sequence[tuple[str, Sequence[float]]]
GRID: Grid = (
    ("pq", (1 / 16, 1 / 12, 1 / 8, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1.0)),
    ("sq4", (1 / 2, 1.0)),
    ("sq8", (1 / 2, 1.0)),
    ("fp16", (1.0,)),
    ("flat", (1.0,)),
)
"""Kind -> shares of the dimensions to try."""
LISTS: Grid = (("ivf-pq", (1 / 4, 1 / 3, 1 / 2, 2 / 3, 1.0)),)
"""Inverted lists, tried if time is limited."""
Queries = Sequence[tuple[Pool, Rows]]
"""Queries, and the rows (q, 10) that are nearest to them."""


def search_settings(
    trials: Trials, target: Target, cell: Cell, choosing: Pool, draw: Draw, proving: int
) -> list[TrialResult]:
    """Try settings in a metric until one is proved: the last of the result.

    `draw` makes queries that prove, `proving` at most.
    """
    exact = partial(trials.exact, rescorer=Rescorer.fit(trials.moments, *cell))
    search = SettingsSearch(
        trials=trials,
        target=target,
        choosing=[(choosing, exact(choosing))],
        proving=Proving(target.agreement, proving, draw, exact),
    )
    has_lists = target.p99_ms is not None and len(trials.live) >= LISTS_ROWS
    return search.run(possible_settings(trials, cell, [*GRID, *LISTS] if has_lists else GRID))


def possible_settings(trials: Trials, cell: Cell, grid: Grid) -> dict[Settings, int]:
    """Return the settings of a grid that suit the vectors, smallest first.

    Each has the most candidates. The values are the bytes of codes, reducer and metric: a lower
    limit, without codebooks.
    """
    beta, gamma = cell
    dim = trials.vectors.dim
    count = len(trials.vectors)
    metric_bytes = Rescorer.fit(trials.moments, beta, gamma).nbytes
    most = max(FEWEST_LIMIT, len(trials.live) // ONE_ROW_IN)
    candidates = max(count for count in CANDIDATES if count <= most)

    # The k of each share, rounded to a multiple that the kind requires.
    sizes = dict[Settings, int]()
    for name, shares in grid:
        kind = kind_named(name)
        for share in shares:
            k = max(round(dim * share) // kind.multiple, 1) * kind.multiple
            settings = Settings(k, beta, gamma, name, candidates)
            if k <= dim and trials.suits(settings):
                codes = round(FaissIndex(kind, k, count).row_nbytes * count)
                sizes[settings] = codes + 4 * k * dim + metric_bytes
    return dict(sorted(sizes.items(), key=itemgetter(1)))


class Proving:
    """Queries that prove an agreement: none at first, and at most `available` in the end.

    `draw` makes more of them. `exact` finds the rows (q, 10) that are nearest to queries.
    """

    def __init__(
        self, agreement: float, available: int, draw: Draw, exact: Callable[[Pool], Rows]
    ) -> None:
        self.agreement = agreement
        self.queries = list[tuple[Pool, Rows]]()  # of each stage
        self._stages = stages(available)
        self._draw = draw
        self._exact = exact

    def __len__(self) -> int:
        return sum(len(pool) for pool, _ in self.queries)

    def add_queries(self) -> bool:
        """Add the queries of the next stage; returns False if no stage is left."""
        if len(self.queries) == len(self._stages):
            return False
        pool = self._draw(self._stages[len(self.queries)] - len(self))
        self.queries.append((pool, self._exact(pool)))
        return True

    def bound(self, shares: NDArray[np.float64], place: int) -> float:
        """Return the agreement that the first queries prove for the index at a place, from 1 on.

        `shares` are the agreements of these queries.
        """
        return betting_bound(shares, error_at(place), self._stages)

    def is_promising(self, shares: NDArray[np.float64], place: int) -> bool:
        """Return whether all available queries would prove the agreement with such shares."""
        if shares.mean() < self.agreement:
            return False
        as_many_as_available = np.resize(shares, self._stages[-1])  # repeats them
        return self.bound(as_many_as_available, place) >= self.agreement

    def proved(self, ranks: Ranks, counts: Sequence[int], place: int) -> list[int]:
        """Return the numbers of candidates, ascending, that are proved with all larger ones."""

        def is_proved(count: int) -> bool:
            return self.bound(recalls(ranks, count), place) >= self.agreement

        return [*takewhile(is_proved, reversed(counts))][::-1]


@dataclass
class SettingsSearch:
    """Tries settings; the choosing and the proving queries are independent."""

    trials: Trials
    target: Target
    choosing: Queries
    proving: Proving
    promising: int = 0  # indexes so far; they share the error

    def run(self, settings_to_try: Mapping[Settings, int]) -> list[TrialResult]:
        """Try settings until one is proved: the last of the result.

        They have the most candidates, and the least bytes that they take; smallest first.
        """
        tried = list[TrialResult]()
        for settings, least_ram in settings_to_try.items():
            if self.target.ram is not None and least_ram > self.target.ram:
                break
            tried.append(self._try(settings))
            if tried[-1].verdict == CHOSEN:
                break
        return tried

    def _try(self, settings: Settings) -> TrialResult:
        """Build one setting; put it to the proof if the choosing queries find it promising."""
        index = self.trials.build(settings)
        most = index.candidates
        ranks = self._ranks(index, self.choosing, most)
        place = self.promising + 1
        if self.proving.is_promising(recalls(ranks, most), place):
            self.promising = place
            tried = self._prove(index, settings, most, place)
            if tried is not None:
                return tried
        return self._measure(index, settings, self.choosing)

    def _prove(
        self, index: ReducedIndex, settings: Settings, most: int, place: int
    ) -> TrialResult | None:
        """Prove the fewest candidates possible, with more queries while that is promising.

        None if no number is proved.
        """
        counts = [count for count in CANDIDATES if count <= most]
        ranks: Ranks = np.empty((0, NEAREST))
        while len(ranks) < len(self.proving) or self.proving.add_queries():
            ranks = self._ranks(index, self.proving.queries, most)

            # Proved by codes alone; the search that users get sometimes needs more candidates.
            for count in self.proving.proved(ranks, counts, place):
                with_count = replace(settings, candidates=count)
                tried = self._measure(index, with_count, self.proving.queries, place)
                if tried.verdict == CHOSEN or self.target.excess(tried.ram, tried.p99_ms):
                    return tried
            if not self.proving.is_promising(recalls(ranks, most), place):
                break
        return None

    def _ranks(self, index: ReducedIndex, queries: Queries, most: int) -> Ranks:
        """Return the ranks of the queries' neighbours among the codes of an index."""
        ranks = [self.trials.ranks(index, pool, truth, most) for pool, truth in queries]
        return np.concatenate(ranks)

    def _measure(
        self, index: ReducedIndex, settings: Settings, queries: Queries, place: int | None = None
    ) -> TrialResult:
        """Measure memory, agreement and times by the search that users get.

        `place` is that of the index if the queries prove.
        """
        index.asked_candidates = settings.candidates
        measured = [self.trials.measure(index, pool, truth) for pool, truth in queries]
        shares = np.concatenate([agreements for agreements, _ in measured])
        p50, p99 = np.percentile(np.array(measured[-1][1][-TIMED:]) * 1e3, (50, 99)).tolist()
        estimate = float(shares.mean())
        bound = betting_bound(shares, ERROR) if place is None else self.proving.bound(shares, place)

        excess = self.target.excess(index.nbytes, p99)
        verdict = "not proved"
        if excess:
            verdict = f"over {excess}"
        elif estimate < self.target.agreement:
            verdict = f"below {self.target.agreement:g}"
        elif place is not None and bound >= self.target.agreement:
            verdict = CHOSEN
        return TrialResult(
            settings=settings,
            ram=index.nbytes,
            estimate=estimate,
            bound=bound,
            queries=len(shares),
            p50_ms=p50,
            p99_ms=p99,
            verdict=verdict,
        )
