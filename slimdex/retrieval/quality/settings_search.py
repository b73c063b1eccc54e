"""Settings search: the cheapest settings that reach a target, tried in order of size.

Settings are screened on a sample of the rows, built in memory if promising, chosen by one sample of
the queries and proved on another. For each of them, more candidates are tried first and then more
queries. The search ends with a proof, or when no settings are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.bounds import betting_bound
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import kind_named
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.settings import Settings
from slimdex.system.atomic_files import in_units

from ..store.state import Certificate
from .metric_choice import Cell, Choice
from .recall_trials import ERROR, Pool, Ranks, Trials, recalls
from .targets import Proving, Shares, Target, Tried, Tuning, name_of

TIMED = 200
NO_LIMIT = 1 << 62
"""More candidates than any setting has."""

CANDIDATES = (25, 35, 50, 70, 100, 140, 200, 280, 400, 560, 800, 1100, 1600, 2200, 3200)
FEWEST_LIMIT = 200
ONE_ROW_IN = 20
"""Limit of candidates, beyond 200: one row in so many, above which codes hardly select."""
LISTS_ROWS = 100_000
"""Rows from which inverted lists are tried if time is limited."""
_NARROW = ("pq", (1 / 16, 1 / 12, 1 / 8, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1.0))
_WIDE = (("sq4", (1 / 2, 1.0)), ("sq8", (1 / 2, 1.0)), ("fp16", (1.0,)), ("flat", (1.0,)))
Grid: TypeAlias = Sequence[tuple[str, Sequence[float]]]
GRID: Grid = (_NARROW, *_WIDE)
"""Kind -> shares of the dimensions to try."""
Proved: TypeAlias = tuple[Tried, Certificate]


class SettingsGrid:
    """Settings to try in a metric: kinds at shares of the dimensions.

    `with_lists` adds inverted lists, for many rows.
    """

    def __init__(
        self, trials: Trials, cell: Cell, with_lists: bool = False, grid: Grid = GRID
    ) -> None:
        self.trials = trials
        self.cell = cell
        self.rescorer = Rescorer.fit(trials.moments, *cell)
        most = max(FEWEST_LIMIT, len(trials.live) // ONE_ROW_IN)
        self.counts = [count for count in CANDIDATES if count <= most]
        self._grid = grid
        self._with_lists = with_lists and len(trials.live) >= LISTS_ROWS

    @cached_property
    def options(self) -> list[Settings]:
        """All possible settings with the most candidates, those of fewest bytes first."""
        trials, (beta, gamma) = self.trials, self.cell
        options = dict[Settings, int]()
        grid = [*self._grid, *([("ivf-pq", _NARROW[1][4:])] if self._with_lists else [])]
        for name, shares in grid:
            multiple = kind_named(name).multiple
            for share in shares:
                k = max(round(trials.vectors.dim * share) // multiple, 1) * multiple
                if k > trials.vectors.dim:
                    continue
                settings = Settings(k, beta, gamma, name, self.counts[-1])
                if self.suits(settings):
                    options[settings] = self.least_ram(settings)
        return sorted(options, key=lambda settings: options[settings])

    def suits(self, settings: Settings) -> bool:
        """Return whether there are enough vectors for settings, which have k."""
        trials = self.trials
        try:
            fitted, _ = settings.checked(trials.vectors.dim).fitted(trials.moments)
        except InputError:
            return False
        return fitted == settings

    def least_ram(self, settings: Settings) -> int:
        """Bytes of codes, reducer and metric, without codebooks."""
        trials = self.trials
        k = settings.k
        assert k is not None
        row = FaissIndex(kind_named(settings.kind), k, len(trials.vectors)).row_nbytes
        return round(row * len(trials.vectors)) + 4 * k * trials.vectors.dim + self.rescorer.nbytes


class SettingsSearch:
    """One search for settings; the choosing and the proving queries are independent."""

    def __init__(
        self,
        trials: Trials,
        target: Target,
        choice: Choice,
        grid: SettingsGrid,
        choosing: Pool,
        proving: Proving,
    ) -> None:
        self.trials = trials
        self.target = target
        self.choice = choice
        self.grid = grid
        self.choosing = choosing
        self.proving = proving
        self.counts = grid.counts
        self.truth = trials.exact(choosing, grid.rescorer)
        self.limits = list[tuple[str, float, str]]()  # attribute of `Tried`, its limit, and words
        if target.ram is not None:
            self.limits.append(("ram", target.ram, in_units(target.ram)))
        if target.p99_ms is not None:
            self.limits.append(("p99_ms", target.p99_ms, f"{target.p99_ms:g} ms"))
        self.place = 0  # of the index that is tried, among those that the choosing queries promise
        self.tried = list[Tried]()
        self.reaching = list[Tried]()  # reach the target, but exceed a limit
        self.too_many = dict[str, int]()  # kind -> candidates that exceed a limit
        self.missed = dict[Settings, float]()  # screened -> agreement with the most candidates
        self.needed = dict[Settings, int | None]()  # not proved -> queries that would prove it

    def run(self) -> Tuning:
        """Try settings, cheapest first, until one is proved."""
        ram = self.target.ram
        options = self.grid.options
        affordable = [o for o in options if ram is None or self.grid.least_ram(o) <= ram]
        for option in affordable:
            if (proved := self._proved(option)) is not None:
                return self._result(*proved)
        self._measure_best_missed()
        for option in options[len(affordable) :]:
            if self.reaching:
                break
            self._proved(option)  # measures it only: it exceeds the limit
        return self._result(lacking=self._lacking())

    def _proved(self, option: Settings) -> Proved | None:
        """Build a promising setting and put it to the proof."""
        ranks = self._screened(option)
        least = self.proving.least_promising(ranks, self.counts, self.place + 1)
        if least is None:
            self.missed[option] = float(recalls(ranks, self.counts[-1]).mean())
            return None
        self.place += 1
        if least >= self.too_many.get(option.kind, NO_LIMIT):
            return None
        index = self.trials.built(option)
        ranks = self.trials.ranks(index, self.choosing, self.truth, self.counts[-1])
        least = self.proving.least_promising(ranks, self.counts, self.place)
        if least is None:
            self._note_unproved(index, option)
        elif not self._is_over(self._measured(index, replace(option, candidates=least))):
            return self._put_to_proof(index, option, least)
        return None

    def _put_to_proof(self, index: ReducedIndex, option: Settings, least: int) -> Proved | None:
        """Prove the fewest candidates possible, with more queries while that is promising.

        `least` candidates are promising and within the limits.
        """
        ranks: Ranks = np.empty((0, self.truth.shape[1]))
        while len(ranks) < len(self.proving) or self.proving.add_queries():
            ranks = self._more_ranks(index, ranks)
            if (proved := self._by_fewest(index, option, ranks)) is not None:
                return proved
            if not (allowed := self._allowed(option)):
                return None
            if not self.proving.is_promising(recalls(ranks, allowed[-1]), self.place):
                break
        count = self.counts[-1] if self._allowed(option) == self.counts else least
        self._note_unproved(index, replace(option, candidates=count), recalls(ranks, count))
        return None

    def _by_fewest(self, index: ReducedIndex, option: Settings, ranks: Ranks) -> Proved | None:
        """Proof of the fewest candidates that the queries so far prove, within the limits."""
        fewest = self.proving.least_proved(ranks, self.counts, self.place)
        if fewest is None:
            return None
        for count in [count for count in self._allowed(option) if count >= fewest]:
            settings = replace(option, candidates=count)
            tried = self._measured(index, settings)
            if self._is_over(tried):
                return None
            if (certificate := self._certificate(index, settings)) is not None:
                return replace(
                    tried,
                    estimate=certificate.estimate,
                    bound=certificate.bound,
                    queries=certificate.queries,
                    verdict="chosen",
                ), certificate
        return None

    def _allowed(self, option: Settings) -> list[int]:
        """Numbers of candidates that are not known to exceed a limit."""
        return [count for count in self.counts if count < self.too_many.get(option.kind, NO_LIMIT)]

    def _more_ranks(self, index: ReducedIndex, ranks: Ranks) -> Ranks:
        """Return the ranks of all proving queries; those of the first ones are known."""
        new = slice(len(ranks), None)
        pool = self.proving.pool
        assert pool is not None
        found = self.trials.ranks(index, pool.part(new), self.proving.truth[new], self.counts[-1])
        return np.concatenate([ranks, found])

    def _screened(self, option: Settings) -> Ranks:
        """Ranks by the codes of a sample of the rows."""
        kind = "pq" if option.kind == "ivf-pq" else option.kind  # lists miss a little more
        screened = replace(option, kind=kind)
        return self.trials.screened(screened, self.choosing, self.truth, self.counts[-1])

    def _measure_best_missed(self) -> None:
        """Measure the best of the settings that were screened out, unless a better one was."""
        if not self.missed:
            return
        best = max(self.missed, key=lambda option: self.missed[option])
        if all(tried.estimate < self.missed[best] for tried in self._within()):
            self._note_unproved(self.trials.built(best), best)

    def _note_unproved(
        self, index: ReducedIndex, settings: Settings, shares: Shares | None = None
    ) -> None:
        """Measure settings that are not proved; `shares` are those of the proving queries."""
        tried = self._measured(index, settings)
        if self._is_over(tried):
            return
        if shares is not None:
            bound = self.proving.bound(shares, self.place)
            tried = replace(tried, estimate=float(shares.mean()), bound=bound, queries=len(shares))
        verdict = f"below {self.target.agreement:g}"
        if tried.estimate >= self.target.agreement:
            verdict = "not proved"
            if shares is None:
                shares = self.trials.found(index, self.choosing, self.truth)[0]
            self.needed[settings] = self.proving.needed(shares, self.place)
        self.tried.append(replace(tried, verdict=verdict))

    def _measured(self, index: ReducedIndex, settings: Settings) -> Tried:
        index.asked_candidates = settings.candidates
        shares, seconds = self.trials.found(index, self.choosing, self.truth)
        timed = np.array(seconds[-TIMED:]) * 1e3
        return Tried(
            settings=settings,
            ram=index.nbytes,
            estimate=float(shares.mean()),
            bound=betting_bound(shares, ERROR),
            queries=len(shares),
            p50_ms=float(np.percentile(timed, 50)),
            p99_ms=float(np.percentile(timed, 99)),
        )

    def _over(self, tried: Tried) -> str | None:
        """The limit that a setting exceeds, if any."""
        found = (text for name, most, text in self.limits if getattr(tried, name) > most)
        return next(found, None)

    def _is_over(self, tried: Tried) -> bool:
        """True if a setting exceeds a limit, which is noted: more candidates do, too."""
        if (limit := self._over(tried)) is None:
            return False
        self.tried.append(tried := replace(tried, verdict=f"over {limit}"))
        if tried.estimate >= self.target.agreement:
            self.reaching.append(tried)
        self.too_many[tried.settings.kind] = tried.settings.candidates or 0
        return True

    def _within(self) -> list[Tried]:
        return [tried for tried in self.tried if self._over(tried) is None]

    def _certificate(self, index: ReducedIndex, settings: Settings) -> Certificate | None:
        """Certify the target by the search that users get, with all proving queries."""
        proving = self.proving
        pool = self.proving.pool
        assert pool is not None
        index.asked_candidates = settings.candidates
        shares, _ = self.trials.found(index, pool, proving.truth)
        if (bound := proving.bound(shares, self.place)) < self.target.agreement:
            return None
        return Certificate(
            settings=settings,
            estimate=float(shares.mean()),
            bound=bound,
            error=ERROR,
            pool=pool.name,
            queries=len(pool),
            rows=len(self.trials.live),
            target=self.target.agreement,
        )

    def _result(
        self,
        chosen: Tried | None = None,
        certificate: Certificate | None = None,
        lacking: str | None = None,
    ) -> Tuning:
        tried = [*self.tried, chosen] if chosen else self.tried
        rows = len(self.trials.live)
        noun = self.trials.snapshot.noun
        why = self.choice.why
        return Tuning(
            target=self.target,
            rows=rows,
            noun=noun,
            metric=why,
            tried=tried,
            chosen=chosen,
            certificate=certificate,
            lacking=lacking,
        )

    def _lacking(self) -> str:
        """Explain which target was missed, name the best setting, and say what would prove it."""
        target = self.target
        said = f"an agreement of {self.target.agreement:g} is not proved"
        if self.limits:
            said += f" within {' and '.join(text for _, _, text in self.limits)}"
        if within := self._within():
            best = max(within, key=lambda tried: tried.estimate)
            said += (
                f"; the best that was measured is {best.estimate:.4f}, at least {best.bound:.4f} "
                f"by {best.queries:,} queries ({name_of(best.settings)})"
            )
            if best.settings in self.needed:
                count = self.needed[best.settings]
                more = f"about {count:,}" if count else "many more"
                said += f"; {more} such queries would prove {target.agreement:g}"
        if self.reaching:
            near = min(
                self.reaching,
                key=lambda tried: max(getattr(tried, name) / most for name, most, _ in self.limits),
            )
            said += (
                f"; the nearest that reaches {target.agreement:g} takes {in_units(near.ram)} and "
                f"{near.p99_ms:.2f} ms ({name_of(near.settings)})"
            )
        return said
