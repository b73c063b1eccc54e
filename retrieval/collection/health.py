"""Health: how far an index's documents are from those that it was fitted on, and what that costs.

Two figures are cheap and exact, or nearly so: the share of variance that the axes keep, and the
error of new rows' codes beside old ones'. What they cost in answers is measured: the share of the
ten nearest by exact search that is found, by queries made of the documents as they are now; and,
with a fit of today that is made in memory and thrown away, what `reduce` would restore.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows, without
from slimdex.indexes.bounds import betting_bound
from slimdex.indexes.drift import variance_kept
from slimdex.indexes.errors import InputError
from slimdex.indexes.linear import Linear
from slimdex.indexes.loss_ladder import exact_orders, own_step
from slimdex.indexes.moments import Moments
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.ranking import agreement
from slimdex.indexes.reduced_index import ReducedIndex

from ..catalog.certificate import Certificate
from ..catalog.state import State
from . import writer
from .index_files import sampled_error
from .ledger import Ledger
from .query_pools import ASKED
from .recall_trials import NEAREST, Pool, built, without_own
from .refit_advice import about, fit_advice, is_outgrown, kind_advice, refit_seconds
from .snapshot import Snapshot

REFIT = ("auto", "never", "always")
"""What an addition may do about a fit that has grown old."""
ERROR = 0.05
"""Probability that a bound of ours does not hold."""
VARIANCE_MISSED = 0.01
"""Of all variance, that a fit of today would keep: what less costs can't be told from chance."""
ERROR_GREW = 1.15
"""Times the error of the codes at the fit. They were trained on those very rows: of others like
them it is 9% more with 700 rows, 5% with 2,000."""
NEW_SHARE = 0.05
"""Of the documents: fewer new ones can't make the recall fall by more than is seen."""
GROWN = 1.25
"""Times the documents that there were when the recall was measured: among more, the same number of
candidates finds less, whatever they are about."""

QUERIES = 2000
"""By which `health` measures: a recall with a spread of 0.23 by query is then within .01 of that by
any number of them, but for one time in twenty."""
FEWEST = 3
"""Documents of which queries can be made: two, and another to find."""
GAIN = 0.005
"""Of recall: to find less than that more is no reason to fit anew."""


MakePool = Callable[[Snapshot, int, Progress], Pool]
"""Gives so many queries made of a snapshot's documents."""


@dataclass(frozen=True)
class Drift:
    """How far documents have moved from those of the fit.

    Attributes
    ----------
    documents : those that can be found.
    since : how many of them came after the fit; None if that is not known.
    fitted : how many the reducer has seen; None if that is not known.
    variance_then, variance_now : share that its axes keep, at the fit and of today's documents.
    variance_best : share that axes fitted to today's documents would keep of theirs.
    error_then, error_old, error_new : of the codes at the fit, and today of the documents that
        were there and of those that came later.
    """

    documents: int
    since: int | None
    fitted: int | None
    variance_then: float | None
    variance_now: float | None
    variance_best: float | None
    error_then: float | None
    error_old: float | None
    error_new: float | None

    @property
    def is_large(self) -> bool | None:
        """Whether the figures say that the fit may cost answers; None if those of the fit are not
        known."""
        if self.since is None:
            return None
        if not self.since:
            return False
        missed = grew = False
        if self.variance_best is not None and self.variance_now is not None:
            missed = self.variance_best - self.variance_now > VARIANCE_MISSED
        if self.error_then is not None and self.error_new is not None:
            grew = self.error_new > ERROR_GREW * self.error_then
        return missed or grew

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON can hold them."""
        return {
            "documents": self.documents,
            "documents_since_fit": self.since,
            "fitted_documents": self.fitted,
            "variance_kept": {
                "at_fit": self.variance_then,
                "now": self.variance_now,
                "refitted": self.variance_best,
            },
            "code_error": {
                "at_fit": self.error_then,
                "old_documents": self.error_old,
                "new_documents": self.error_new,
            },
        }


def drift(state: State, index: ReducedIndex, moments: Moments, hidden: Rows) -> Drift:
    """The figures of a committed state.

    Parameters
    ----------
    moments : of the documents that can be found.
    hidden : rows (n,), sorted, that no search finds.
    """
    then = state.fit or {}
    live = without(np.arange(len(index)), hidden)
    first = None if state.fit is None else int(np.searchsorted(live, state.fit["rows"]))
    return Drift(
        documents=len(live),
        since=None if first is None else len(live) - first,
        fitted=state.fitted,
        variance_then=then.get("variance_kept"),
        variance_now=variance_kept(index.reducer, moments),
        variance_best=_best_variance(state, index, moments),
        error_then=then.get("code_error"),
        error_old=sampled_error(index, live if first is None else live[:first]),
        error_new=None if first is None else sampled_error(index, live[first:]),
    )


def _best_variance(state: State, index: ReducedIndex, moments: Moments) -> float | None:
    """What the same settings would keep if they were fitted now; a linear fit reads no vectors."""
    if state.settings is None or not moments.n or not isinstance(index.reducer, Linear):
        return None
    return variance_kept(state.settings.fit_reducer(index.vectors, moments), moments)


@dataclass(frozen=True)
class Measured:
    """Recall@10 by some queries, against exact search in the metric that an index approximates.

    Attributes
    ----------
    shares : (q,), each query's.
    truth, found : rows (q, 10) of exact search, and of the index.
    """

    shares: NDArray[np.float64]
    truth: Rows
    found: Rows

    @property
    def estimate(self) -> float:
        """Their mean."""
        return float(self.shares.mean())

    @property
    def bound(self) -> float:
        """What the mean over all such queries is not below, but with probability `ERROR`."""
        return betting_bound(self.shares, ERROR)


def measured(
    index: ReducedIndex, pool: Pool, hidden: Rows, progress: Progress = silent
) -> Measured:
    """The recall of an index by a pool of queries, each with its own documents held out."""
    step, own = own_step(index), pool.own
    deep = NEAREST + own.shape[1]
    exact = exact_orders(index, pool.vectors, deep, [step], hidden, progress)[step]
    truth = _first(without_own(exact.rows, own))
    found = np.full_like(truth, -1)
    for i, query in enumerate(pool.vectors):
        others = np.union1d(hidden, own[i][own[i] >= 0])
        _, rows = index.search(query[None], NEAREST, exclude=others)
        found[i, : rows.shape[1]] = rows[0]
    return Measured(agreement(found, truth, NEAREST), truth, found)


def health(
    ledger: Ledger,
    snapshot: Snapshot,
    make_pool: MakePool,
    sample: int = QUERIES,
    progress: Progress = silent,
) -> dict[str, Any]:
    """The report that `Collection.health` gives; see there."""
    if sample < 1:
        raise InputError(f"sample={sample}; expected 1 or more queries")
    state, index, hidden = snapshot.state, snapshot.index, snapshot.hidden
    moments = ledger.moments()
    figures, certificate = drift(state, index, moments, hidden), in_force(state)
    pool = make_pool(snapshot, sample, progress)
    now = measured(index, pool, hidden, progress)
    refitted = None
    if figures.since != 0 and isinstance(index.reducer, Linear):
        refitted = _refitted(snapshot, moments, pool, now, progress)
    report = figures.as_dict()
    report["recall"] = {
        "estimate": now.estimate,
        "bound": now.bound,
        "error": ERROR,
        "queries": len(pool),
        "pool": pool.name,
    }
    report["certified"] = certificate and promised(certificate)
    report["verdict"] = verdict(certificate, now) if is_comparable(certificate) else None
    report["refit"] = refitted
    report["advice"] = _advice(ledger.path, figures, report)
    return report


def _refitted(
    snapshot: Snapshot, moments: Moments, pool: Pool, now: Measured, progress: Progress
) -> dict[str, Any] | None:
    """What a fit of today would find, and what it takes; None if there can be none."""
    try:
        settings, _ = snapshot.state.requested.fitted(moments)
    except InputError:
        return None
    with TemporaryDirectory() as folder:
        start = perf_counter()
        vectors = snapshot.index.vectors
        index = built(vectors, settings, moments, Path(folder) / "norms", progress)
        seconds = perf_counter() - start
        then = measured(index, pool, snapshot.hidden, progress)
        return {
            "estimate": then.estimate,
            "bound": then.bound,
            "seconds": seconds,
            "found_of_its_order": float(agreement(now.found, then.truth, NEAREST).mean()),
        }


def in_force(state: State) -> Certificate | None:
    """The certificate of the settings that are in force, if there is one."""
    found = state.certificate
    return found if found is not None and found.settings == state.settings else None


def is_comparable(certificate: Certificate | None) -> TypeGuard[Certificate]:
    """Whether it is by queries made of documents, like those that we can make anew."""
    return certificate is not None and certificate.pool != ASKED


def promised(certificate: Certificate) -> float:
    """The recall that was asked for; where none was, the bound that was proved."""
    return certificate.bound if certificate.target is None else certificate.target


def verdict(certificate: Certificate, now: Measured) -> str:
    """Whether what was certified is so: "holds", "not proved" any more, or "broken"."""
    if now.estimate < promised(certificate):
        return "broken"
    return "holds" if now.bound >= promised(certificate) else "not proved"


def may_have_changed(certificate: Certificate, figures: Drift) -> bool:
    """Whether the documents since the recall was measured can have moved it.

    To measure it takes a pass over all vectors, so that it is not done for every few documents.
    """
    before, there = certificate.rows, figures.documents
    if there > GROWN * before:
        return True
    return figures.is_large is True and there - before > NEW_SHARE * there


def check_refit(refit: str) -> None:
    """Raise `InputError` unless it is one of `REFIT`."""
    if refit not in REFIT:
        raise InputError(f"refit={refit!r}; expected {', '.join(REFIT[:-1])} or {REFIT[-1]}")


@dataclass(frozen=True)
class Settled:
    """What became of a fit after an addition."""

    snapshot: Snapshot
    notes: list[str]
    refitted: bool = False


def after_addition(
    ledger: Ledger,
    snapshot: Snapshot,
    make_pool: MakePool,
    seconds: float,
    refit: str = "auto",
    progress: Progress = silent,
) -> Settled:
    """Measure again what was certified, if an addition may have changed it; refit, or advise to.

    The addition is committed already, and stays whatever happens here; a refit is another commit.

    Parameters
    ----------
    make_pool : queries of the documents as they are now; not asked unless the recall is measured.
    seconds : what the addition took: `refit="auto"` takes less than that.
    refit : one of `REFIT`.
    """
    state, index = snapshot.state, snapshot.index
    if state.fit is not None and state.fit["rows"] == state.rows:  # the addition was a fit
        return Settled(snapshot, [])
    certificate, now = in_force(state), None
    documents = state.rows - len(snapshot.hidden)
    if not is_comparable(certificate) or documents < FEWEST:
        certificate = None
    assert state.settings is not None
    kind = kind_advice(ledger.path, state.requested, state.settings.kind, documents, snapshot.noun)
    if not documents or (refit != "always" and not _is_due(certificate, snapshot)):
        return Settled(snapshot, kind)
    figures = drift(state, index, ledger.moments(), snapshot.hidden)
    if certificate is not None and may_have_changed(certificate, figures):
        pool = make_pool(snapshot, certificate.queries, progress)
        now = measured(index, pool, snapshot.hidden, progress)
        certificate = _renewed(certificate, now, pool, figures.documents)
        snapshot = writer.certify(ledger, snapshot, certificate)
    said = _alarm(ledger.path, figures, certificate, now, snapshot)
    is_sure = bool(said) and (figures.is_large or (now is not None and figures.is_large is None))
    if refit == "always" or (refit == "auto" and is_sure and _takes_less(index, seconds)):
        return _refit(ledger, snapshot, make_pool, figures, certificate, now, progress)
    return Settled(snapshot, said + kind)


def _is_due(certificate: Certificate | None, snapshot: Snapshot) -> bool:
    """Whether so much was added that a look at the figures, which takes some time, is worth it."""
    documents = snapshot.state.rows - len(snapshot.hidden)
    if certificate is None:
        return is_outgrown(snapshot.state.fitted, documents, snapshot.index)
    return documents - certificate.rows > NEW_SHARE * documents


def _takes_less(index: ReducedIndex, seconds: float) -> bool:
    takes = refit_seconds(index)
    return takes is not None and takes < seconds


def _alarm(
    path: Path,
    figures: Drift,
    certificate: Certificate | None,
    now: Measured | None,
    snapshot: Snapshot,
) -> list[str]:
    """A line if what was certified is broken, or, where nothing was, if the fit has grown old."""
    index = snapshot.index
    if certificate is None:
        if figures.is_large is False:
            return []
        return fit_advice(path, figures.fitted, figures.documents, index, snapshot.noun)
    if now is None or verdict(certificate, now) != "broken":
        return []
    if figures.is_large is False:  # more of the same, among which as many candidates find less
        return [f"{_fallen(certificate, now)}; `slimdex tune {path}` looks for other settings"]
    return [
        f"{_fallen(certificate, now)}; `slimdex reduce {path}` fits anew"
        f"{about(refit_seconds(index))}, `slimdex health {path}` measures what that restores"
    ]


def _fallen(certificate: Certificate, now: Measured) -> str:
    return (
        f"recall@10 is {now.estimate:.4f}, at least {now.bound:.4f}: below the "
        f"{promised(certificate):.4g} that was certified"
    )


def _refit(
    ledger: Ledger,
    snapshot: Snapshot,
    make_pool: MakePool,
    figures: Drift,
    certificate: Certificate | None,
    now: Measured | None,
    progress: Progress,
) -> Settled:
    start = perf_counter()
    snapshot, notes = writer.refit(ledger, snapshot, ledger.state.requested, progress)
    seconds = perf_counter() - start
    fitted = "some" if figures.fitted is None else f"{figures.fitted:,}"
    why = f"fitted on {fitted} of {figures.documents:,} {snapshot.noun}"
    if certificate is not None and now is not None and verdict(certificate, now) == "broken":
        why = _fallen(certificate, now)
    elif figures.variance_now is not None and figures.variance_best is not None:
        why += (
            f", it kept {figures.variance_now:.3f} of their variance and now keeps "
            f"{figures.variance_best:.3f}"
        )
    said = f"{why}; fitted anew in {seconds:.1f} s"
    if certificate is not None:  # a fit is another index: what was proved of the old one is gone
        pool = make_pool(snapshot, certificate.queries, progress)
        then = measured(snapshot.index, pool, snapshot.hidden, progress)
        state = snapshot.state
        assert state.settings is not None
        certificate = replace(
            _renewed(certificate, then, pool, figures.documents), settings=state.settings
        )
        snapshot = writer.certify(ledger, snapshot, certificate)
        said += f": recall@10 {then.estimate:.4f}, at least {then.bound:.4f}"
        if verdict(certificate, then) == "broken":
            said += f"; still below: `slimdex tune {ledger.path}` looks for other settings"
    return Settled(snapshot, [said, *notes], refitted=True)


def _renewed(certificate: Certificate, now: Measured, pool: Pool, rows: int) -> Certificate:
    """What is known now; what was promised stays, so that no alarm is lowered step by step."""
    return replace(
        certificate,
        estimate=now.estimate,
        bound=now.bound,
        error=ERROR,
        pool=pool.name,
        queries=len(pool),
        rows=rows,
        target=promised(certificate),
    )


def _advice(path: Path, figures: Drift, report: dict[str, Any]) -> list[str]:
    """What to do, with a figure; nothing where there is nothing to gain."""
    now, refit = report["recall"], report["refit"]
    said = f"recall@10 {now['estimate']:.3f}, at least {now['bound']:.3f}"
    if report["certified"] is not None and report["verdict"] != "holds":
        said += f", of {report['certified']:.4g} certified"
    is_broken = report["verdict"] == "broken"
    if refit is not None:
        gain = refit["estimate"] - now["estimate"]
        order = 1 - refit["found_of_its_order"]
        restores = (
            f"`slimdex reduce {path}` restores {refit['estimate']:.3f} in "
            f"{max(1, round(refit['seconds']))} s"
        )
        if gain >= GAIN or (is_broken and refit["estimate"] >= report["certified"]):
            return [f"{said}; {restores}"]
        if is_broken:
            return [
                f"{said}; a fit to today's documents would find {refit['estimate']:.3f}: "
                f"`slimdex tune {path}` looks for other settings"
            ]
        if figures.is_large and order - (1 - refit["estimate"]) >= GAIN:
            return [
                f"{said}; of the ten that a fit to today's documents ranks first, "
                f"{refit['found_of_its_order']:.3f} are found: {restores}"
            ]
        return []
    if is_broken:
        return [f"{said}; `slimdex tune {path}` looks for other settings"]
    return []


def _first(rows: Rows) -> Rows:
    out: Rows = np.full((len(rows), NEAREST), -1, dtype=np.int64)
    out[:, : rows.shape[1]] = rows[:, :NEAREST]
    return out
