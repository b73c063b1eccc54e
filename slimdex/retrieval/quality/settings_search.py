"""Settings search: the cheapest settings that reach a target, tried in order of size.

Settings are screened on a sample of the rows, built in memory if promising, chosen by one sample of
the queries and proved on another. For each of them, more candidates are tried first and then more
queries. The search ends with a proof, or when no settings are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import kind_named
from slimdex.indexes.confidence_bound import betting_bound
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.settings import Settings
from slimdex.system.atomic_files import in_units

from ..store.state import Certificate
from .metric_choice import Cell, Choice
from .recall_trials import ERROR, Pool, Ranks, Trials, recalls
from .tuning_targets import Proving, Shares, Target, TrialResult, Tuning, name_of

TIMED = 200

CANDIDATES = (25, 35, 50, 70, 100, 140, 200, 280, 400, 560, 800, 1100, 1600, 2200, 3200)
FEWEST_LIMIT = 200
ONE_ROW_IN = 20
"""At most one row in this many is a candidate, or `FEWEST_LIMIT` rows if that is more: with more
candidates, codes hardly select."""
LISTS_ROWS = 100_000
"""Rows from which inverted lists are tried if time is limited."""
_NARROW = ("pq", (1 / 16, 1 / 12, 1 / 8, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1.0))
_WIDE = (("sq4", (1 / 2, 1.0)), ("sq8", (1 / 2, 1.0)), ("fp16", (1.0,)), ("flat", (1.0,)))
Grid: TypeAlias = Sequence[tuple[str, Sequence[float]]]
GRID: Grid = (_NARROW, *_WIDE)
"""Kind -> shares of the dimensions to try."""


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
        """All possible settings, each with the most candidates; those of fewest bytes first."""
        trials = self.trials
        beta, gamma = self.cell
        options = dict[Settings, int]()
        grid = [*self._grid]
        if self._with_lists:
            grid.append(("ivf-pq", _NARROW[1][4:]))  # without the smallest shares

        # The k of each share, rounded to a multiple that the kind requires.
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
        """Return whether there are enough vectors for a fit to keep these settings."""
        trials = self.trials
        try:
            fitted, _ = settings.checked(trials.vectors.dim).fitted(trials.moments)
        except InputError:
            return False
        return fitted == settings

    def least_ram(self, settings: Settings) -> int:
        """Return the bytes of codes, reducer and metric: a lower limit, without codebooks."""
        trials = self.trials
        k = settings.k
        assert k is not None
        row = FaissIndex(kind_named(settings.kind), k, len(trials.vectors)).row_nbytes
        return round(row * len(trials.vectors)) + 4 * k * trials.vectors.dim + self.rescorer.nbytes


class Limit(NamedTuple):
    """Name of an attribute of `TrialResult`, and its largest allowed value, also as text."""

    attribute: str
    most: float
    text: str


class Proof(NamedTuple):
    """The chosen settings, and the certificate of their agreement."""

    chosen: TrialResult
    certificate: Certificate


@dataclass(frozen=True)
class Attempts:
    """Everything that a search has tried so far.

    Attributes
    ----------
    tried : settings that were measured and not proved, with their verdicts.
    promising : number of indexes that the choosing queries found promising; they share the error.
    missed : settings that were screened out -> agreement with the most candidates.
    needed : settings that were not proved -> queries that would prove them, None for too many.
    proof : the result, which ends the search.
    """

    tried: tuple[TrialResult, ...] = ()
    promising: int = 0
    missed: Mapping[Settings, float] = field(default_factory=dict)
    needed: Mapping[Settings, int | None] = field(default_factory=dict)
    proof: Proof | None = None

    def with_tried(self, tried: TrialResult) -> Attempts:
        """Add settings with their verdict."""
        return replace(self, tried=(*self.tried, tried))


@dataclass(frozen=True)
class SettingsSearch:
    """One search for settings; the choosing and the proving queries are independent.

    Its steps take the attempts so far and return them with the next ones.
    """

    trials: Trials
    target: Target
    choice: Choice
    grid: SettingsGrid
    choosing: Pool
    proving: Proving

    def run(self) -> Tuning:
        """Try settings, cheapest first, until one is proved."""
        attempts = Attempts()
        ram = self.target.ram
        options = self.grid.options
        # The options are in order of memory, so these are the first ones.
        affordable = [o for o in options if ram is None or self.grid.least_ram(o) <= ram]
        for option in affordable:
            attempts = self._attempt(attempts, option)
            if attempts.proof is not None:
                return self._result(attempts)

        # Name what comes nearest to the target, within its limits and beyond.
        attempts = self._with_best_missed(attempts)
        for option in options[len(affordable) :]:
            if self._reaching(attempts):
                break
            attempts = self._attempt(attempts, option)  # measures it only: it exceeds the limit
        return self._result(attempts)

    @cached_property
    def truth(self) -> Rows:
        """Rows (q, 10) of the exact answers to the choosing queries."""
        return self.trials.exact(self.choosing, self.grid.rescorer)

    @cached_property
    def limits(self) -> list[Limit]:
        """Limits of the target."""
        limits = list[Limit]()
        if self.target.ram is not None:
            limits.append(Limit("ram", self.target.ram, in_units(self.target.ram)))
        if self.target.p99_ms is not None:
            limits.append(Limit("p99_ms", self.target.p99_ms, f"{self.target.p99_ms:g} ms"))
        return limits

    def _attempt(self, attempts: Attempts, option: Settings) -> Attempts:
        """Try one setting: build it if it is promising, and try to prove it."""
        # Screen it by a sample of the rows. `place` is its number among the promising ones.
        ranks = self._screen(option)
        place = attempts.promising + 1
        least = self.proving.least_promising(ranks, self.grid.counts, place)
        if least is None:
            estimate = float(recalls(ranks, self.grid.counts[-1]).mean())
            return replace(attempts, missed={**attempts.missed, option: estimate})
        attempts = replace(attempts, promising=place)
        if least not in self._allowed_counts(attempts, option):  # this many exceeded a limit
            return attempts

        # Build it, and find the smallest promising number of candidates, using all rows.
        index = self.trials.build(option)
        ranks = self.trials.ranks(index, self.choosing, self.truth, self.grid.counts[-1])
        least = self.proving.least_promising(ranks, self.grid.counts, place)
        if least is None:
            return self._with_unproved(attempts, index, option)
        tried = self._measure(index, replace(option, candidates=least))
        if self._limit_of(tried) is not None:
            return self._with_excessive(attempts, tried)
        return self._prove(attempts, index, option, least)

    def _prove(
        self, attempts: Attempts, index: ReducedIndex, option: Settings, least: int
    ) -> Attempts:
        """Prove the fewest candidates possible, with more queries while that is promising.

        `least` candidates are promising and within the limits.
        """
        ranks: Ranks = np.empty((0, self.truth.shape[1]))
        while len(ranks) < len(self.proving) or self.proving.add_queries():
            ranks = self._more_ranks(index, ranks)
            attempts = self._by_fewest(attempts, index, option, ranks)
            allowed = self._allowed_counts(attempts, option)
            if attempts.proof is not None or not allowed:
                return attempts
            if not self.proving.is_promising(recalls(ranks, allowed[-1]), attempts.promising):
                break

        # Not proved: measure with the most candidates or, if a limit excludes some, with `least`.
        is_unlimited = self._allowed_counts(attempts, option) == self.grid.counts
        count = self.grid.counts[-1] if is_unlimited else least
        settings = replace(option, candidates=count)
        return self._with_unproved(attempts, index, settings, recalls(ranks, count))

    def _by_fewest(
        self, attempts: Attempts, index: ReducedIndex, option: Settings, ranks: Ranks
    ) -> Attempts:
        """Add a proof of the fewest candidates that the queries so far prove, within the limits."""
        fewest = self.proving.least_proved(ranks, self.grid.counts, attempts.promising)
        if fewest is None:
            return attempts

        # These are proved by codes alone; the search that users get sometimes needs more.
        for count in self._allowed_counts(attempts, option):
            if count < fewest:
                continue
            settings = replace(option, candidates=count)
            tried = self._measure(index, settings)
            if self._limit_of(tried) is not None:
                return self._with_excessive(attempts, tried)
            certificate = self._certificate(index, settings, attempts.promising)
            if certificate is not None:
                chosen = replace(
                    tried,
                    estimate=certificate.estimate,
                    bound=certificate.bound,
                    queries=certificate.queries,
                    verdict="chosen",
                )
                return replace(attempts, proof=Proof(chosen, certificate))
        return attempts

    def _allowed_counts(self, attempts: Attempts, option: Settings) -> list[int]:
        """Numbers of candidates that may be within the limits.

        They are below the number with which this kind last exceeded a limit, if it did.
        """
        for tried in reversed(attempts.tried):
            if tried.settings.kind == option.kind and self._limit_of(tried) is not None:
                excessive = tried.settings.candidates or 0
                return [count for count in self.grid.counts if count < excessive]
        return [*self.grid.counts]

    def _more_ranks(self, index: ReducedIndex, ranks: Ranks) -> Ranks:
        """Return the ranks of all proving queries; `ranks` are those of the first ones."""
        new = slice(len(ranks), None)
        pool = self.proving.pool
        assert pool is not None
        more = self.trials.ranks(
            index, pool.part(new), self.proving.truth[new], self.grid.counts[-1]
        )
        return np.concatenate([ranks, more])

    def _screen(self, option: Settings) -> Ranks:
        """Estimate the ranks of the neighbours of the choosing queries, by a sample of the rows."""
        kind = "pq" if option.kind == "ivf-pq" else option.kind  # lists miss a little more
        screened = replace(option, kind=kind)
        return self.trials.screen(screened, self.choosing, self.truth, self.grid.counts[-1])

    def _with_best_missed(self, attempts: Attempts) -> Attempts:
        """Measure the best of the settings that were screened out, to name it in the result.

        That is not needed if a better one within the limits was measured.
        """
        missed = attempts.missed
        if not missed:
            return attempts
        best = max(missed, key=lambda option: missed[option])
        if any(tried.estimate >= missed[best] for tried in self._within(attempts)):
            return attempts
        return self._with_unproved(attempts, self.trials.build(best), best)

    def _with_unproved(
        self,
        attempts: Attempts,
        index: ReducedIndex,
        settings: Settings,
        shares: Shares | None = None,
    ) -> Attempts:
        """Measure settings that are not proved, and add them with a verdict that says why.

        `shares` are the agreements of the proving queries; None if no proof was tried.
        """
        place = max(attempts.promising, 1)  # none may have been promising
        tried = self._measure(index, settings)
        if self._limit_of(tried) is not None:
            return self._with_excessive(attempts, tried)
        if shares is not None:
            bound = self.proving.bound(shares, place)
            tried = replace(tried, estimate=float(shares.mean()), bound=bound, queries=len(shares))
        if tried.estimate < self.target.agreement:
            return attempts.with_tried(replace(tried, verdict=f"below {self.target.agreement:g}"))
        if shares is None:
            shares = self.trials.measure(index, self.choosing, self.truth)[0]
        needed = {**attempts.needed, settings: self.proving.queries_needed(shares, place)}
        return replace(attempts, needed=needed).with_tried(replace(tried, verdict="not proved"))

    def _with_excessive(self, attempts: Attempts, tried: TrialResult) -> Attempts:
        """Add settings that exceed a limit."""
        return attempts.with_tried(replace(tried, verdict=f"over {self._limit_of(tried)}"))

    def _measure(self, index: ReducedIndex, settings: Settings) -> TrialResult:
        """Measure memory, agreement and times by the choosing queries, with these candidates."""
        index.asked_candidates = settings.candidates
        shares, seconds = self.trials.measure(index, self.choosing, self.truth)
        timed = np.array(seconds[-TIMED:]) * 1e3
        return TrialResult(
            settings=settings,
            ram=index.nbytes,
            estimate=float(shares.mean()),
            bound=betting_bound(shares, ERROR),
            queries=len(shares),
            p50_ms=float(np.percentile(timed, 50)),
            p99_ms=float(np.percentile(timed, 99)),
        )

    def _limit_of(self, tried: TrialResult) -> str | None:
        """Return the limit that a setting exceeds, as text; None if it exceeds none."""
        for limit in self.limits:
            if getattr(tried, limit.attribute) > limit.most:
                return limit.text
        return None

    def _excess(self, tried: TrialResult) -> float:
        """Return the largest ratio of a measured value to its limit."""
        shares = (getattr(tried, limit.attribute) / limit.most for limit in self.limits)
        return float(max(shares))

    def _within(self, attempts: Attempts) -> list[TrialResult]:
        """Settings that exceed no limit."""
        return [tried for tried in attempts.tried if self._limit_of(tried) is None]

    def _reaching(self, attempts: Attempts) -> list[TrialResult]:
        """Settings that reach the target, but exceed a limit."""
        reaching = []
        for tried in attempts.tried:
            if self._limit_of(tried) is not None and tried.estimate >= self.target.agreement:
                reaching.append(tried)
        return reaching

    def _certificate(
        self, index: ReducedIndex, settings: Settings, place: int
    ) -> Certificate | None:
        """Certify the target by the search that users get, with all proving queries.

        None if that does not prove it.
        """
        proving = self.proving
        pool = proving.pool
        assert pool is not None
        index.asked_candidates = settings.candidates
        shares, _ = self.trials.measure(index, pool, proving.truth)
        bound = proving.bound(shares, place)
        if bound < self.target.agreement:
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

    def _result(self, attempts: Attempts) -> Tuning:
        """Return the result for users: the chosen settings, or what is lacking."""
        result = Tuning(
            target=self.target,
            rows=len(self.trials.live),
            noun=self.trials.snapshot.noun,
            metric=self.choice.why,
            tried=[*attempts.tried],
        )
        proof = attempts.proof
        if proof is None:
            return replace(result, lacking=self._lacking(attempts))
        return replace(
            result,
            tried=[*attempts.tried, proof.chosen],
            chosen=proof.chosen,
            certificate=proof.certificate,
        )

    def _lacking(self, attempts: Attempts) -> str:
        """Explain which target was missed, name the best setting, and say what would prove it."""
        target = self.target
        text = f"an agreement of {target.agreement:g} is not proved"
        if self.limits:
            text += f" within {' and '.join(limit.text for limit in self.limits)}"

        # The nearest settings within the limits, and beyond them.
        within = self._within(attempts)
        if within:
            best = max(within, key=lambda tried: tried.estimate)
            text += (
                f"; the best that was measured is {best.estimate:.4f}, at least {best.bound:.4f} "
                f"by {best.queries:,} queries ({name_of(best.settings)})"
            )
            if best.settings in attempts.needed:
                count = attempts.needed[best.settings]
                more = f"about {count:,}" if count else "many more"
                text += f"; {more} such queries would prove {target.agreement:g}"
        reaching = self._reaching(attempts)
        if reaching:
            nearest = min(reaching, key=self._excess)
            ram = in_units(nearest.ram)
            text += (
                f"; the nearest that reaches {target.agreement:g} takes {ram} and "
                f"{nearest.p99_ms:.2f} ms ({name_of(nearest.settings)})"
            )
        return text
