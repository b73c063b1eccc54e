"""Settings search: the cheapest settings that reach a target, tried in order of size.

Settings are screened on a sample of the rows, built in memory if promising, chosen by one sample of
the queries and proved on another.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.bounds import betting_bound
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import kind_named
from slimdex.indexes.errors import InputError
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.settings import Settings

from ...catalog.state import Certificate
from ...trials.recall_trials import ERROR, Pool, Trials, joined_own, recalls
from .metric_choice import Choice
from .targets import SHARES, Target, Tried, Tuning, name_of, size_of

CANDIDATES = (25, 35, 50, 70, 100, 140, 200, 280, 400, 560, 800, 1100, 1600, 2200, 3200)
LEAST_MOST = 200
ONE_ROW_IN = 20
"""Limit of candidates, beyond 200: one row in so many, above which codes hardly select."""
SECONDS = 270.0
"""Time after which no further setting is tried."""
LISTS_ROWS = 100_000
"""Rows from which inverted lists are tried if time is limited."""
TIMED = 200
"""Queries for timing a setting."""
_NARROW = ("pq", (1 / 16, 1 / 12, 1 / 8, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1.0))
_WIDE = (("sq4", (1 / 2, 1.0)), ("sq8", (1 / 2, 1.0)), ("fp16", (1.0,)), ("flat", (1.0,)))
GRID = (_NARROW, *_WIDE)
"""Kind -> shares of the dimensions to try."""


class SettingsSearch:
    """One search for settings."""

    def __init__(
        self,
        trials: Trials,
        target: Target,
        choice: Choice,
        choosing: Pool,
        proving: Pool,
    ) -> None:
        self.trials, self.target, self.choice = trials, target, choice
        self.choosing, self.proving = choosing, proving
        self.rescorer = Rescorer.fit(trials.moments, *choice.cell)
        both = Pool(
            choosing.name,
            np.concatenate([choosing.vectors, proving.vectors]),
            joined_own(choosing.own, proving.own),
        )
        truth = trials.exact(both, self.rescorer)  # one pass for both
        self.truths = truth[: len(choosing)], truth[len(choosing) :]
        self.started, self.proofs = perf_counter(), 0
        self.tried: list[Tried] = []
        self.best: Tried | None = None  # within the limits, but below the target
        self.reaching: list[Tried] = []  # reach the target, but exceed a limit
        self.too_slow: dict[str, int] = {}  # kind -> candidates that exceed a limit
        self.late = False
        rows = len(trials.live)
        most = max(LEAST_MOST, rows // ONE_ROW_IN)
        self.counts = [c for c in CANDIDATES if c <= most]

    def run(self) -> Tuning:
        """Try settings, cheapest first, until one is proved."""
        ram, missed = self.target.ram, dict[Settings, float]()
        options = self.options()
        affordable = [o for o in options if ram is None or self._least_ram(o) <= ram]
        for option in affordable:
            if self._is_over():
                break
            count, promised = self._screened(option)
            if count is None:
                missed[option] = promised
            elif count < self.too_slow.get(option.kind, self.counts[-1] + 1):
                found = self._tried(option)
                if found is not None:
                    return found
        if self.best is None and missed:
            best = max(missed, key=lambda option: missed[option])
            self._miss(self.trials.built(best), best)
        for option in options[len(affordable) :]:
            if self.reaching or self._is_over():
                break
            if self._screened(option)[0] is not None:
                self._tried(option)
        return self._result(lacking=self._lacking())

    def options(self) -> list[Settings]:
        """All possible settings for these rows, those of fewest bytes first."""
        trials, (beta, gamma) = self.trials, self.choice.cell
        options = dict[Settings, int]()
        grid = list(GRID)
        if self.target.p99_ms is not None and len(trials.live) >= LISTS_ROWS:
            grid.append(("ivf-pq", _NARROW[1][4:]))
        for name, shares in grid:
            multiple = kind_named(name).multiple
            for share in shares:
                k = max(round(trials.dim * share) // multiple, 1) * multiple
                if k > trials.dim:
                    continue
                settings = Settings(k, beta, gamma, name, self.counts[-1])
                try:
                    fitted, _ = settings.checked(trials.dim).fitted(trials.moments)
                except InputError:
                    continue
                if fitted == settings:
                    options[settings] = self._least_ram(settings)
        return sorted(options, key=lambda settings: options[settings])

    def _least_ram(self, settings: Settings) -> int:
        """Bytes of codes, reducer and metric, without codebooks."""
        trials, k = self.trials, settings.k
        assert k is not None
        row = FaissIndex(kind_named(settings.kind), k, len(trials.vectors)).row_nbytes
        return round(row * len(trials.vectors)) + 4 * k * trials.dim + self.rescorer.nbytes

    def _is_over(self) -> bool:
        """True if no more settings are to be tried."""
        self.late = perf_counter() - self.started > SECONDS
        return self.late or self.proofs == len(SHARES)

    def _screened(self, option: Settings) -> tuple[int | None, float]:
        """Return the fewest candidates that promise the target by a sample of the rows, or None.

        Also returns the agreement that the most candidates promise.
        """
        kind = "pq" if option.kind == "ivf-pq" else option.kind  # lists miss a little more
        screened, most = replace(option, kind=kind), self.counts[-1]
        ranks = self.trials.screened(screened, self.choosing, self.truths[0], most)
        return self._least(ranks), float(recalls(ranks, most).mean())

    def _least(self, ranks: NDArray[np.float64]) -> int | None:
        """Fewest candidates that should prove the target with other queries."""
        low, high = 0, len(self.counts)
        while low < high:
            middle = (low + high) // 2
            if self._should_prove(recalls(ranks, self.counts[middle])):
                high = middle
            else:
                low = middle + 1
        return self.counts[low] if low < len(self.counts) else None

    def _should_prove(self, shares: NDArray[np.float64]) -> bool:
        """True if the same number of such queries, drawn again, would prove the target."""
        n = len(self.proving)
        room = float(shares.std()) * sqrt(1 / len(shares) + 1 / n)
        alike = np.resize(shares, n)
        return betting_bound(alike, ERROR * SHARES[0]) - room >= self.target.agreement

    def _tried(self, option: Settings) -> Tuning | None:
        """Build a setting and try to prove it; return the result if proved."""
        index = self.trials.built(option)
        ranks = self.trials.ranks(index, self.choosing, self.truths[0], self.counts[-1])
        count = self._least(ranks)
        if count is None:
            self._miss(index, option)
            return None
        for more in [c for c in self.counts if c >= count]:
            settings = replace(option, candidates=more)
            tried = self._measured(index, settings)
            if (over := self._over(tried)) is not None:
                self.tried.append(replace(tried, verdict=over))
                self.reaching.append(tried)
                self.too_slow[option.kind] = more
                return None
            if self.proofs == len(SHARES):
                return None
            if (proof := self._proof(index, settings)) is not None:
                return self._result(replace(tried, verdict="chosen"), proof)
            self.tried.append(replace(tried, verdict="not proved"))
        return None

    def _miss(self, index: ReducedIndex, option: Settings) -> None:
        """Measure a setting that misses the target with the most candidates."""
        tried = self._measured(index, replace(option, candidates=self.counts[-1]))
        over = self._over(tried)
        self.tried.append(replace(tried, verdict=over or f"below {self.target.agreement:g}"))
        if over is None and (self.best is None or tried.estimate > self.best.estimate):
            self.best = tried

    def _measured(self, index: ReducedIndex, settings: Settings) -> Tried:
        index.asked_candidates = settings.candidates
        shares, seconds = self.trials.found(index, self.choosing, self.truths[0])
        timed = np.array(seconds[-TIMED:]) * 1e3
        return Tried(
            settings,
            index.nbytes,
            float(shares.mean()),
            betting_bound(shares, ERROR),
            float(np.percentile(timed, 50)),
            float(np.percentile(timed, 99)),
        )

    def _over(self, tried: Tried) -> str | None:
        """The limit that a setting exceeds, if any."""
        target = self.target
        if target.ram is not None and tried.ram > target.ram:
            return f"over {size_of(target.ram)}"
        if target.p99_ms is not None and tried.p99_ms > target.p99_ms:
            return f"over {target.p99_ms:g} ms"
        return None

    def _proof(self, index: ReducedIndex, settings: Settings) -> Certificate | None:
        """Certify the target with queries that chose nothing; each failure uses up part of the
        error level."""
        error = ERROR * SHARES[self.proofs]
        self.proofs += 1
        index.asked_candidates = settings.candidates
        shares, _ = self.trials.found(index, self.proving, self.truths[1])
        if (bound := betting_bound(shares, error)) < self.target.agreement:
            return None
        return Certificate(
            settings,
            float(shares.mean()),
            bound,
            ERROR,
            self.proving.name,
            len(self.proving),
            len(self.trials.live),
            self.target.agreement,
        )

    def _result(
        self,
        chosen: Tried | None = None,
        certificate: Certificate | None = None,
        lacking: str | None = None,
    ) -> Tuning:
        tried = [*self.tried, chosen] if chosen else self.tried
        rows, noun = len(self.trials.live), self.trials.snapshot.noun
        why = self.choice.why
        return Tuning(self.target, rows, noun, why, tried, chosen, certificate, lacking)

    def _lacking(self) -> str:
        target, limits = self.target, list[str]()
        limits += [size_of(target.ram)] if target.ram is not None else []
        limits += [f"{target.p99_ms:g} ms"] if target.p99_ms is not None else []
        have = " and ".join(limits) or "these documents"
        if self.best is not None:
            best = name_of(self.best.settings)
            said = f"{have} reach an agreement of {self.best.estimate:.3f} at most ({best})"
        elif any(tried.verdict == "not proved" for tried in self.tried):
            count = f"{len(self.proving):,} queries"
            said = f"{have}: {target.agreement:g} was reached, but {count} did not prove it"
        else:
            wanted = f"an agreement of {target.agreement:g}"
            said = f"{have}: no settings were found that reach {wanted}"
        if self.reaching:
            near = min(self.reaching, key=self._excess)
            said += (
                f"; the nearest that reaches {target.agreement:g} takes {size_of(near.ram)} and "
                f"{near.p99_ms:.2f} ms ({name_of(near.settings)})"
            )
        return said + ("; not all settings were tried, for lack of time" if self.late else "")

    def _excess(self, tried: Tried) -> float:
        """Largest ratio of a value to its limit."""
        target = self.target
        pairs = (tried.ram, target.ram), (tried.p99_ms, target.p99_ms)
        return max(value / limit for value, limit in pairs if limit is not None)
