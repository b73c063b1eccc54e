"""Tuning: the cheapest settings that reach a recall, proved on queries that did not choose them.

First (beta, gamma), which say what is searched for: see `metric_choice`. Then the least of memory,
and with it of candidates, whose recall against exact search in that metric reaches the target:
settings are screened on a sample of the rows, built where they promise enough, chosen by one
sample of the queries and proved on another. Nothing is encoded but queries, and nothing is written
but 4 bytes a row in a folder for temporary files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import sqrt
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.bounds import betting_bound
from slimdex.indexes.choices import AUTO, Choices
from slimdex.indexes.errors import InputError
from slimdex.indexes.kinds import kind_named
from slimdex.indexes.moments import Moments
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.reduced_index import ReducedIndex
from slimdex.indexes.rescoring import Rescorer
from slimdex.indexes.settings import Settings
from slimdex.indexes.vector_index import FaissIndex

from ..catalog.certificate import Certificate
from ..encoders.base import Encoder
from . import metric_choice
from .ledger import Ledger
from .metric_choice import Cell, Choice
from .query_pools import ASKED, document_pool, encoded
from .recall_trials import Pool, Trials, recalls
from .snapshot import Snapshot

CHOOSING, PROVING = 500, 1500
"""Queries that settings are chosen by, and proved on: 1,500 prove .003 less than the mean."""
MOST_ASKED = 2000
"""Of given queries so many are used: a quarter to choose by, the others to prove on."""
CERTIFIED = 500
"""Queries by which a build is certified."""
ERROR = 0.05
SHARES = (0.6, 0.25, 0.15)
"""Parts of the error level for the first setting that is to be proved, the second and the third."""
CANDIDATES = (25, 35, 50, 70, 100, 140, 200, 280, 400, 560, 800, 1100, 1600, 2200, 3200)
LEAST_MOST = 200
ONE_ROW_IN = 20
"""Candidates are 200, or one row in so many, at most: beyond, codes hardly choose."""
FEWEST_A_DIMENSION = 1.5
"""Documents below which an index keeps what its fallback chose."""
SECONDS = 270.0
"""After which no further setting is tried."""
LISTS_ROWS = 100_000
"""Rows from which inverted lists are tried where time is limited."""
TIMED = 200
"""Queries that a setting is timed with."""
_NARROW = ("pq", (1 / 16, 1 / 12, 1 / 8, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1.0))
_WIDE = (("sq4", (1 / 2, 1.0)), ("sq8", (1 / 2, 1.0)), ("fp16", (1.0,)), ("flat", (1.0,)))
GRID = (_NARROW, *_WIDE)
"""Kind -> shares of the dimensions that are tried with it."""


@dataclass(frozen=True)
class Target:
    """What settings are to reach.

    Parameters
    ----------
    recall : against exact search in the index's own metric, of the ten nearest; above 0, below 1.
    ram : bytes resident at most, None for any.
    disk : bytes of the index's folder at most.
    p99_ms : milliseconds that 99 of 100 searches take at most, from a vector to rows.
    """

    recall: float = 0.99
    ram: int | None = None
    disk: int | None = None
    p99_ms: float | None = None

    def checked(self) -> Target:
        """Itself; raises `InputError` for what can't be reached by anything."""
        if not 0 < self.recall < 1:
            raise InputError(f"recall={self.recall}; expected above 0 and below 1")
        for name in ("ram", "disk", "p99_ms"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name}={value}; expected above 0")
        return self


@dataclass(frozen=True)
class Tried:
    """A setting that was measured, on the queries that choose.

    Attributes
    ----------
    ram, disk : bytes, of the whole index in memory and of its folder.
    estimate, bound : of the recall, the bound of this setting alone with 95% confidence.
    p50_ms, p99_ms : of a search, from a vector to rows.
    verdict : what became of it.
    """

    settings: Settings
    ram: int
    disk: int
    estimate: float
    bound: float
    p50_ms: float
    p99_ms: float
    verdict: str = ""


@dataclass(frozen=True)
class Tuning:
    """What was tried, what was chosen, and what is proved of it.

    Attributes
    ----------
    documents : that can be found.
    metric : why (beta, gamma) are what they are.
    chosen : None if nothing reaches the target.
    certificate : of the chosen settings, on queries that did not choose them.
    lacking : what could not be had, and the nearest that can; None if all could.
    applied : whether the index has these settings now.
    """

    target: Target
    documents: int
    metric: str
    tried: list[Tried] = field(default_factory=list)
    chosen: Tried | None = None
    certificate: Certificate | None = None
    lacking: str | None = None
    applied: bool = False

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**asdict(self), "said": self.said}

    @property
    def said(self) -> list[str]:
        """The choice and why, in lines for people."""
        lines = [self.metric]
        if self.chosen is not None and self.certificate is not None:
            lines.append(
                f"chosen: {_named(self.chosen.settings)}, {_size(self.chosen.ram)} in memory, the "
                f"least that was found to reach {self.target.recall:g}"
            )
            said = self.certificate.said(self.chosen.settings, self.documents)
            lines.append(f"proved: {said}")
        if self.lacking:
            lines.append(self.lacking)
        return lines


@dataclass(frozen=True)
class Asked:
    """Queries that a user has, with labels or without.

    Attributes
    ----------
    queries : (id, text).
    labels : query id -> document id -> relevance.
    """

    queries: Sequence[tuple[str, str]]
    labels: Mapping[str, Mapping[str, int]] | None = None


def tune(
    ledger: Ledger,
    snapshot: Snapshot,
    encoder: Encoder | None,
    target: Target,
    asked: Asked | None = None,
    *,
    progress: Progress = silent,
    seed: int = 0,
) -> Tuning:
    """Settings for a target, tried on a snapshot that stays as it is.

    Parameters
    ----------
    encoder : for queries; None where vectors were given.

    Raises
    ------
    InputError
        If there is nothing to ask by, or so few queries that they can't prove the target.
    """
    target.checked()
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory(prefix="slimdex-tune-") as folder:
        trials = Trials(snapshot, ledger.moments(), Path(folder), progress)
        choosing, proving = _pools(ledger, snapshot, encoder, asked, rng, progress)
        _check_provable(target, len(proving))
        if len(trials.live) < FEWEST_A_DIMENSION * trials.dim:
            choice = Choice(_cell(snapshot), _few(trials))
            return _Search(ledger, trials, target, choice, choosing, proving).as_it_is()
        choice = _metric(ledger, snapshot, encoder, asked, trials.moments, rng, progress)
        return _Search(ledger, trials, target, choice, choosing, proving).run()


def certify(
    ledger: Ledger,
    snapshot: Snapshot,
    encoder: Encoder | None,
    *,
    progress: Progress = silent,
    seed: int = 0,
) -> Certificate:
    """What queries made of the documents prove of the settings in force, which rescore.

    Raises
    ------
    InputError
        If the index does not rescore, or there are too few documents.
    """
    pool = document_pool(
        snapshot, ledger.store, encoder, CERTIFIED, np.random.default_rng(seed), progress
    )
    return certified(snapshot, ledger.moments(), pool, progress=progress)


def certified(
    snapshot: Snapshot, moments: Moments, pool: Pool, *, progress: Progress = silent
) -> Certificate:
    """What a pool proves of the settings in force."""
    settings, metric = snapshot.state.settings, snapshot.index.metric
    if settings is None or metric is None:
        raise InputError("candidates=0: the codes' order is final; expected an index that rescores")
    with tempfile.TemporaryDirectory(prefix="slimdex-tune-") as folder:
        trials = Trials(snapshot, moments, Path(folder), progress)
        truth = trials.exact(pool, metric.rescorer)
        shares, _ = trials.found(snapshot.index, pool, truth)
        return _certificate(settings, shares, ERROR, pool, len(trials.live))


def raw_metric(
    ledger: Ledger,
    snapshot: Snapshot,
    encoder: Encoder,
    *,
    progress: Progress = silent,
    seed: int = 0,
) -> Choice:
    """The rule's (beta, gamma) without labels; the default for all but raw encoders."""
    rng = np.random.default_rng(seed)
    return _metric(ledger, snapshot, encoder, None, ledger.moments(), rng, progress)


class _Search:
    """One search for settings."""

    def __init__(
        self,
        ledger: Ledger,
        trials: Trials,
        target: Target,
        choice: Choice,
        choosing: Pool,
        proving: Pool,
    ) -> None:
        self.ledger, self.trials, self.target, self.choice = ledger, trials, target, choice
        self.choosing, self.proving = choosing, proving
        self.rescorer = Rescorer.fit(trials.moments, *choice.cell)
        both = Pool(
            choosing.name,
            np.concatenate([choosing.vectors, proving.vectors]),
            np.concatenate([choosing.own, proving.own]),
        )
        truth = trials.exact(both, self.rescorer)  # one pass for all of them
        self.truths = truth[: len(choosing)], truth[len(choosing) :]
        self.started, self.proofs = perf_counter(), 0
        self.tried: list[Tried] = []
        self.best: Tried | None = None  # within the limits, of those that miss the target
        self.reaching: list[Tried] = []  # the target, but not the limits
        self.too_slow: dict[str, int] = {}  # kind -> candidates that exceed a limit
        self.too_large = self.late = False
        rows = len(trials.live)
        most = max(LEAST_MOST, rows // ONE_ROW_IN)
        self.counts = [c for c in CANDIDATES if c <= most]

    def run(self) -> Tuning:
        """The cheapest first, until one is proved."""
        ram, missed = self.target.ram, dict[Settings, float]()
        options = self._options()
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

    def as_it_is(self) -> Tuning:
        """The settings in force, proved or not."""
        settings, index = self.trials.snapshot.state.settings, self.trials.snapshot.index
        assert settings is not None
        if index.metric is None:
            raise InputError(
                f"{len(self.trials.live):,} documents and candidates=0; expected more documents, "
                "or an index that rescores (candidates=200)"
            )
        tried = self._measured(index, settings)
        if (over := self._over(tried)) is None:
            if (proof := self._proof(index, settings)) is not None:
                return self._result(replace(tried, verdict="chosen"), proof)
            over = "not proved"
        self.tried.append(replace(tried, verdict=over))
        return self._result(lacking=self._lacking())

    def _options(self) -> list[Settings]:
        """All that the rows can bear, by bytes."""
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
        """Bytes of codes, reducer and metric, but for codebooks."""
        trials, k = self.trials, settings.k
        assert k is not None
        row = FaissIndex(kind_named(settings.kind), k, len(trials.vectors)).row_nbytes
        return round(row * len(trials.vectors)) + 4 * k * trials.dim + self.rescorer.nbytes

    def _is_over(self) -> bool:
        """Whether no more is to be tried."""
        self.late = perf_counter() - self.started > SECONDS
        return self.late or self.proofs == len(SHARES) or self.too_large

    def _screened(self, option: Settings) -> tuple[int | None, float]:
        """The least candidates that promise the target by a sample of the rows, if any do.

        Also the recall that the most of them promise.
        """
        kind = "pq" if option.kind == "ivf-pq" else option.kind  # lists miss a little more
        screened, most = replace(option, kind=kind), self.counts[-1]
        ranks = self.trials.screened(screened, self.choosing, self.truths[0], most)
        return self._least(ranks), float(recalls(ranks, most).mean())

    def _least(self, ranks: NDArray[np.float64]) -> int | None:
        """The fewest candidates with which the other queries should prove the target."""
        low, high = 0, len(self.counts)
        while low < high:
            middle = (low + high) // 2
            if self._should_prove(recalls(ranks, self.counts[middle])):
                high = middle
            else:
                low = middle + 1
        return self.counts[low] if low < len(self.counts) else None

    def _should_prove(self, shares: NDArray[np.float64]) -> bool:
        """Whether queries like these, as many as prove, would; with room for another draw."""
        n = len(self.proving)
        room = float(shares.std()) * sqrt(1 / len(shares) + 1 / n)
        alike = np.resize(shares, n)
        return betting_bound(alike, ERROR * SHARES[0]) - room >= self.target.recall

    def _tried(self, option: Settings) -> Tuning | None:
        """The answer, if an option is built and proved."""
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
                self.too_large = self.target.disk is not None and tried.disk > self.target.disk
                return None
            if self.proofs == len(SHARES):
                return None
            if (proof := self._proof(index, settings)) is not None:
                return self._result(replace(tried, verdict="chosen"), proof)
            self.tried.append(replace(tried, verdict="not proved"))
        return None

    def _miss(self, index: ReducedIndex, option: Settings) -> None:
        """Measure what misses the target with the most candidates."""
        tried = self._measured(index, replace(option, candidates=self.counts[-1]))
        over = self._over(tried)
        self.tried.append(replace(tried, verdict=over or f"below {self.target.recall:g}"))
        if over is None and (self.best is None or tried.estimate > self.best.estimate):
            self.best = tried

    def _measured(self, index: ReducedIndex, settings: Settings) -> Tried:
        index.asked_candidates = settings.candidates
        shares, seconds = self.trials.found(index, self.choosing, self.truths[0])
        timed = np.array(seconds[-TIMED:]) * 1e3
        return Tried(
            settings,
            index.nbytes,
            self._disk(index),
            float(shares.mean()),
            betting_bound(shares, ERROR),
            float(np.percentile(timed, 50)),
            float(np.percentile(timed, 99)),
        )

    def _over(self, tried: Tried) -> str | None:
        """Which limit a setting exceeds."""
        for name, value, unit in (
            ("ram", tried.ram, ""),
            ("disk", tried.disk, ""),
            ("p99_ms", tried.p99_ms, " ms"),
        ):
            limit = getattr(self.target, name)
            if limit is not None and value > limit:
                return f"over {f'{limit:g}{unit}' if unit else _size(limit)}"
        return None

    def _proof(self, index: ReducedIndex, settings: Settings) -> Certificate | None:
        """A certificate of the target, by queries that chose nothing; each failure costs error."""
        error = ERROR * SHARES[self.proofs]
        self.proofs += 1
        index.asked_candidates = settings.candidates
        shares, _ = self.trials.found(index, self.proving, self.truths[1])
        if betting_bound(shares, error) < self.target.recall:
            return None
        return _certificate(
            settings, shares, error, self.proving, len(self.trials.live), self.target.recall
        )

    def _disk(self, index: ReducedIndex) -> int:
        """Bytes of the folder, were this the index in it."""
        state, path = self.trials.snapshot.state, self.ledger.path
        gone = {state.files[role].name for role in ("codes", "reducer") if role in state.files}
        gone |= {state.norms} if state.norms else set()
        kept = sum(f.stat().st_size for f in path.iterdir() if f.is_file() and f.name not in gone)
        return kept + index.nbytes + 4 * len(index)

    def _result(
        self,
        chosen: Tried | None = None,
        certificate: Certificate | None = None,
        lacking: str | None = None,
    ) -> Tuning:
        tried = [*self.tried, chosen] if chosen else self.tried
        target, rows = self.target, len(self.trials.live)
        return Tuning(target, rows, self.choice.why, tried, chosen, certificate, lacking)

    def _lacking(self) -> str:
        target, limits = self.target, list[str]()
        limits += [_size(target.ram)] if target.ram is not None else []
        limits += [f"{_size(target.disk)} on disk"] if target.disk is not None else []
        limits += [f"{target.p99_ms:g} ms"] if target.p99_ms is not None else []
        have = " and ".join(limits) or "these documents"
        if self.best is not None:
            said = f"{have} reach at most {self.best.estimate:.3f} ({_named(self.best.settings)})"
        elif any(tried.verdict == "not proved" for tried in self.tried):
            said = f"{have}: {target.recall:g} was reached, and not proved by {len(self.proving):,}"
            said += " queries"
        else:
            said = f"{have}: nothing within that was found to reach {target.recall:g}"
        if self.reaching:
            near = min(self.reaching, key=self._excess)
            said += (
                f"; the nearest that reaches {target.recall:g} takes {_size(near.ram)}, "
                f"{_size(near.disk)} on disk and {near.p99_ms:.2f} ms ({_named(near.settings)})"
            )
        return said + ("; not all was tried, for want of time" if self.late else "")

    def _excess(self, tried: Tried) -> float:
        """How many times a limit it takes, of that which it exceeds most."""
        target = self.target
        pairs = (tried.ram, target.ram), (tried.disk, target.disk), (tried.p99_ms, target.p99_ms)
        return max(value / limit for value, limit in pairs if limit is not None)


def _pools(
    ledger: Ledger,
    snapshot: Snapshot,
    encoder: Encoder | None,
    asked: Asked | None,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Pool, Pool]:
    """Queries to choose by and queries to prove on, which are drawn apart."""
    if asked is None:
        count = CHOOSING + PROVING
        pool = document_pool(snapshot, ledger.store, encoder, count, rng, progress)
        return pool.part(slice(CHOOSING)), pool.part(slice(CHOOSING, None))
    if encoder is None:
        raise InputError("vectors were given for this index; expected no queries in words")
    texts = [text for _, text in asked.queries]
    if len(texts) < 2:
        raise InputError(f"{len(texts)} queries; expected some to choose by and some to prove on")
    order = rng.permutation(len(texts))[:MOST_ASKED]
    vectors = encoded(encoder, [texts[i] for i in order], progress)
    pool, few = Pool.asked(ASKED, vectors), max(len(vectors) // 4, 1)
    return pool.part(slice(few)), pool.part(slice(few, None))


def _check_provable(target: Target, count: int) -> None:
    """So few queries prove less, even if every one finds all."""
    most = betting_bound(np.ones(count), ERROR * SHARES[0])
    if most < target.recall:
        raise InputError(
            f"recall={target.recall:g}: {count:,} queries to prove it on can show {most:.3f} at "
            "most; expected more queries, or less recall"
        )


def _metric(
    ledger: Ledger,
    snapshot: Snapshot,
    encoder: Encoder | None,
    asked: Asked | None,
    moments: Moments,
    rng: np.random.Generator,
    progress: Progress,
) -> Choice:
    """(beta, gamma) by labels where there are enough, else by what can be seen of the encoder."""
    rule, default = metric_choice, metric_choice.DEFAULT
    live = np.setdiff1d(np.arange(snapshot.state.rows), snapshot.hidden, assume_unique=True)
    vectors = snapshot.index.vectors
    sample = np.sort(rng.choice(live, min(len(live), rule.DOCUMENTS), replace=False))
    if asked is not None and asked.labels and encoder is not None:
        labelled = _labelled(ledger, snapshot, asked)
        if len(labelled) >= rule.FEWEST_LABELLED:
            wanted = np.array([row for _, rows, _ in labelled for row in rows])
            own = np.array([row for _, _, row in labelled])
            rows = np.union1d(sample, np.union1d(wanted, own[own >= 0]))
            place = {row: i for i, row in enumerate(rows.tolist())}
            labels = [{place[row]: r for row, r in rels.items()} for _, rels, _ in labelled]
            cell, gain, low = rule.by_labels(
                moments,
                vectors.take(rows),
                encoded(encoder, [text for text, _, _ in labelled], progress),
                labels,
                np.array([place.get(row, -1) for row in own.tolist()]),
                progress,
            )
            by = f"{len(labelled):,} queries with labels"
            if cell != default and low > 0:
                return Choice(cell, f"{_cell_name(cell)}: {by} gain {100 * gain:.1f} nDCG@10")
            return Choice(default, f"{_cell_name(default)}, the default: {by} gain nothing sure")
    kept = f"{_cell_name(default)}, the default"
    if encoder is None:
        return Choice(default, f"{kept}: of given vectors there are no words to judge by")
    cosine = rule.mean_cosine(vectors, live, rng)
    if cosine <= rule.RAW_COSINE:
        return Choice(default, f"{kept}: the encoder is tuned (mean cosine {cosine:.2f})")
    X = vectors.take(sample)
    found = ledger.store.documents(sample.tolist(), snapshot.epoch)
    words = rule.keywords([found[row].content for row in sample.tolist()])
    targets = rng.choice(len(sample), min(rule.KEYWORD_QUERIES, len(sample)), replace=False)
    targets = np.array([target for target in targets.tolist() if words[target]])
    queries = encoded(encoder, [words[target] for target in targets.tolist()], progress)
    cell, gain, low = rule.by_keywords(moments, X, queries, targets, progress)
    if gain < rule.LEAST_GAIN or low <= 0:
        return Choice(default, f"{kept}: mean cosine {cosine:.2f}, but no other is surely better")
    return Choice(
        cell,
        f"{_cell_name(cell)}: the encoder is raw (mean cosine {cosine:.2f}), and its documents' "
        f"keywords find them with {100 * gain:.0f} points of MRR more than by the default",
    )


def _labelled(
    ledger: Ledger, snapshot: Snapshot, asked: Asked
) -> list[tuple[str, dict[int, int], int]]:
    """Queries with labels: text, row -> relevance, and the row of the query itself or -1."""
    assert asked.labels is not None
    rows = {id: row for row, id in enumerate(ledger.store.ids(snapshot.state.rows))}
    gone = set(snapshot.hidden.tolist())
    rows = {id: row for id, row in rows.items() if row not in gone}
    out = []
    for id, text in asked.queries:
        found = {rows[d]: r for d, r in asked.labels.get(id, {}).items() if d in rows}
        if any(relevance > 0 for relevance in found.values()):
            own = rows.get(id, -1)
            out.append((text, found, -1 if own in found else own))
    return out


def _certificate(
    settings: Settings,
    shares: NDArray[np.float64],
    error: float,
    pool: Pool,
    rows: int,
    target: float | None = None,
) -> Certificate:
    return Certificate(
        settings,
        float(shares.mean()),
        betting_bound(shares, error),
        ERROR,
        pool.name,
        len(pool),
        rows,
        target,
    )


def _few(trials: Trials) -> str:
    return (
        f"{len(trials.live):,} documents of {trials.dim} dimensions, fewer than "
        f"{FEWEST_A_DIMENSION:g} for each: the settings stay as they are"
    )


def _cell(snapshot: Snapshot) -> Cell:
    settings = snapshot.state.settings or Choices()
    return settings.beta, settings.gamma


def _cell_name(cell: Cell) -> str:
    return f"beta={cell[0]:g}, gamma={cell[1]:g}"


def _named(settings: Settings) -> str:
    count = AUTO if settings.candidates is None else f"{settings.candidates:,}"
    return f"{settings.kind}, k={settings.k}, {count} candidates"


def _size(count: int) -> str:
    """Bytes for people.

    >>> _size(12_340_000), _size(999), _size(2_500_000_000)
    ('12.3 MB', '999 bytes', '2.5 GB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
