"""Refitting: checks a fit after an addition, and renews it if necessary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from slimdex.indexes.errors import InputError
from slimdex.indexes.search.reduced_index import ReducedIndex

from ..catalog.state import Certificate
from ..ingest import writer
from ..ingest.rewriting.fitting import refit
from ..open_index import OpenIndex
from ..storage.snapshot import Snapshot
from ..trials.recall_trials import Pool
from .certified_recall import (
    ERROR,
    FEWEST,
    Measured,
    in_force,
    is_comparable,
    measured,
    verdict,
)
from .fit_drift import Drift, drift
from .refit_advice import about, fit_advice, is_outgrown, kind_advice, refit_seconds

REFIT = ("auto", "never", "always")
"""Actions of an addition on an outdated fit."""
NEW_SHARE = 0.05
"""Share of new documents below which the agreement can't fall noticeably."""
GROWN = 1.25
"""Growth since the agreement was measured: with more documents, the same number of candidates finds
less, whatever their subject."""


def check_refit(refit: str) -> None:
    """Raise `InputError` unless it is one of `REFIT`."""
    if refit not in REFIT:
        raise InputError(f"refit={refit!r}; expected {', '.join(REFIT[:-1])} or {REFIT[-1]}")


def may_have_changed(certificate: Certificate, figures: Drift) -> bool:
    """True if documents added since the agreement was measured may have changed it.

    Measuring requires a pass over all vectors, so it is skipped for few documents.
    """
    before, there = certificate.rows, figures.documents
    if there > GROWN * before:
        return True
    return figures.is_large and there - before > NEW_SHARE * there


@dataclass(frozen=True)
class Settled:
    """State of a fit after an addition."""

    notes: list[str]
    refitted: bool = False


def after_addition(core: OpenIndex, seconds: float, wanted: str = "auto") -> Settled:
    """Measure certified agreement again if an addition may have changed it; refit or advise it.

    The addition is already committed; a refit is another commit.

    Parameters
    ----------
    seconds : time that the addition took; "auto" refits only if that takes less.
    wanted : one of `REFIT`.
    """
    snapshot = core.snapshot
    state, index = snapshot.state, snapshot.index
    if state.fit["rows"] == state.rows:  # the addition was a fit
        return Settled([])
    certificate, now = in_force(state), None
    documents = snapshot.searchable_count
    if not is_comparable(certificate) or documents < FEWEST:
        certificate = None
    assert state.settings is not None
    kind = kind_advice(core.path, state.requested, state.settings.kind, documents, snapshot.noun)
    if not documents or (wanted != "always" and not _is_due(certificate, snapshot)):
        return Settled(kind)
    moments = core.read(lambda _: core.commit_log.moments())
    figures = drift(state, index, moments, snapshot.hidden)
    if certificate is not None and may_have_changed(certificate, figures):
        pool, now = _measured(core, certificate)
        certificate = _renewed(certificate, now, pool, figures.documents)
        writer.keep_certificate(core, certificate)
    said = _alarm(core.path, figures, certificate, now, snapshot)
    is_sure = bool(said) and figures.is_large
    if wanted == "always" or (wanted == "auto" and is_sure and _takes_less(index, seconds)):
        return _refit(core, figures, certificate, now)
    return Settled(said + kind)


def _is_due(certificate: Certificate | None, snapshot: Snapshot) -> bool:
    """True if enough was added to justify computing the figures of drift."""
    documents = snapshot.searchable_count
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
    """A message if a certificate is broken or, without one, if the fit is outdated."""
    index = snapshot.index
    if certificate is None:
        if not figures.is_large:
            return []
        return fit_advice(path, figures.fitted, figures.documents, index, snapshot.noun)
    if now is None or verdict(certificate, now) != "broken":
        return []
    if not figures.is_large:  # more similar documents: the candidates find less
        return [f"{_fallen(certificate, now)}; `slimdex tune {path}` looks for other settings"]
    return [
        f"{_fallen(certificate, now)}; `slimdex reduce {path}` fits again"
        f"{about(refit_seconds(index))}, `slimdex health {path}` measures what that restores"
    ]


def _fallen(certificate: Certificate, now: Measured) -> str:
    return (
        f"agreement@10 with exact search is {now.estimate:.4f}, at least {now.bound:.4f}: below "
        f"the certified {certificate.promised:.4g}"
    )


def _refit(
    core: OpenIndex, figures: Drift, certificate: Certificate | None, now: Measured | None
) -> Settled:
    start = perf_counter()
    notes = refit(core, core.state.requested, "with the last")
    seconds, snapshot = perf_counter() - start, core.snapshot
    why = f"fitted on {figures.fitted:,} of {figures.documents:,} {snapshot.noun}"
    if certificate is not None and now is not None and verdict(certificate, now) == "broken":
        why = _fallen(certificate, now)
    elif figures.variance_now is not None and figures.variance_best is not None:
        why += (
            f", it kept {figures.variance_now:.3f} of their variance and now keeps "
            f"{figures.variance_best:.3f}"
        )
    said = f"{why}; refitted in {seconds:.1f} s"
    if certificate is not None:  # a refitted index needs a new certificate
        pool, then = _measured(core, certificate)
        state = snapshot.state
        assert state.settings is not None
        certificate = replace(
            _renewed(certificate, then, pool, figures.documents), settings=state.settings
        )
        writer.keep_certificate(core, certificate)
        said += f": agreement@10 with exact search {then.estimate:.4f}, at least {then.bound:.4f}"
        if verdict(certificate, then) == "broken":
            said += f"; still below: `slimdex tune {core.path}` looks for other settings"
    return Settled([said, *notes], refitted=True)


def _measured(core: OpenIndex, certificate: Certificate) -> tuple[Pool, Measured]:
    """Measure the agreement of the newest snapshot, by as many queries as before."""

    def measure(snapshot: Snapshot) -> tuple[Pool, Measured]:
        pool = core.pool(snapshot, certificate.queries)
        return pool, measured(snapshot.index, pool, snapshot.hidden)

    return core.read(measure)


def _renewed(certificate: Certificate, now: Measured, pool: Pool, rows: int) -> Certificate:
    """Renew a certificate; the promise stays, so that alarms are not lowered step by step."""
    return replace(
        certificate,
        estimate=now.estimate,
        bound=now.bound,
        error=ERROR,
        pool=pool.name,
        queries=len(pool),
        rows=rows,
        target=certificate.promised,
    )
