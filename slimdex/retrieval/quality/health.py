"""Health: drift of an index's documents from those it was fitted on, and its effect.

Two figures are cheap and exact, or nearly so: the share of variance kept by the axes, and the
error of new rows' codes compared with old ones. The effect on answers is measured: agreement with
exact search on queries made from the current documents; and, with a temporary new fit, what
`reduce` would restore.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from slimdex.indexes.errors import InputError
from slimdex.indexes.ranking import agreement
from slimdex.indexes.reducers.linear import Linear
from slimdex.indexes.reducers.moments import Moments

from ..open_index import OpenIndex
from ..storage.snapshot import Snapshot
from ..trials.recall_trials import NEAREST, Pool, built
from .certified_recall import (
    ERROR,
    Measured,
    in_force,
    is_comparable,
    measured,
    verdict,
)
from .fit_drift import Drift, drift

GAIN = 0.005
"""Smallest gain of agreement that justifies a new fit."""


def health(core: OpenIndex, snapshot: Snapshot, sample: int) -> dict[str, Any]:
    """Measure how far the documents are from those that the index was fitted on.

    Agreement with exact search in the index's metric is measured by queries made of documents, each
    held out of its own answers. That takes a pass over all vectors, and a new fit, which
    shows what `reduce` would restore, another. Nothing is changed.

    Parameters
    ----------
    sample : number of queries, 1 or more; with 2000 and a standard deviation of 0.23 per query, the
        agreement is within .01 of its limit in 19 of 20 cases.

    Returns
    -------
    ``documents``, ``documents_since_fit``, ``fitted_documents`` : counts; of passages, if texts
        are cut.
    ``variance_kept`` : share of the vectors' variance on the reducer's axes, ``at_fit``,
        ``now`` and ``refitted``; None for reducers without axes.
    ``code_error`` : mean squared error of the codes of unit vectors, ``at_fit``, and now of
        ``old_documents`` and ``new_documents``.
    ``agreement`` : ``estimate`` of agreement@10 and its lower ``bound``, wrong with probability
        ``error``; number of ``queries``, and their ``pool``.
    ``certified`` : the certified agreement or None; ``verdict`` : whether it "holds", is "not
        proved" any more, or "broken"; None if it was certified by given queries.
    ``refit`` : ``estimate`` and ``bound`` after a new fit, its ``seconds``, and
        ``found_of_its_order``, the share of its exact ten that the index finds now; None if no
        documents came after the fit, or the reducer is trained.
    ``advice`` : lines for people, none if there is nothing to gain.
    """
    if sample < 1:
        raise InputError(f"sample={sample}; expected 1 or more queries")
    state, index, hidden = snapshot.state, snapshot.index, snapshot.hidden
    moments = core.commit_log.moments()
    figures, certificate = drift(state, index, moments, hidden), in_force(state)
    pool = core.pool(snapshot, sample)
    now = measured(index, pool, hidden)
    refitted = None
    if figures.since and isinstance(index.reducer, Linear):
        refitted = _refitted(snapshot, moments, pool, now)
    report = figures.as_dict()
    report["agreement"] = {
        "estimate": now.estimate,
        "bound": now.bound,
        "error": ERROR,
        "queries": len(pool),
        "pool": pool.name,
    }
    report["certified"] = certificate and certificate.promised
    report["verdict"] = verdict(certificate, now) if is_comparable(certificate) else None
    report["refit"] = refitted
    report["advice"] = _advice(core.path, figures, report)
    return report


def _refitted(
    snapshot: Snapshot, moments: Moments, pool: Pool, now: Measured
) -> dict[str, Any] | None:
    """Agreement and time of a new fit; None if impossible."""
    try:
        settings, _ = snapshot.state.requested.fitted(moments)
    except InputError:
        return None
    with TemporaryDirectory() as folder:
        start = perf_counter()
        vectors = snapshot.index.vectors
        index = built(vectors, settings, moments, Path(folder) / "norms")
        seconds = perf_counter() - start
        then = measured(index, pool, snapshot.hidden)
        return {
            "estimate": then.estimate,
            "bound": then.bound,
            "seconds": seconds,
            "found_of_its_order": float(agreement(now.found, then.truth, NEAREST).mean()),
        }


def _advice(path: Path, figures: Drift, report: dict[str, Any]) -> list[str]:
    """Advice with figures; empty if there is nothing to gain."""
    refit, is_broken = report["refit"], report["verdict"] == "broken"
    other = f"`slimdex tune {path}` looks for other settings"
    if refit is None:
        return [f"{_standing(report)}; {other}"] if is_broken else []
    then, found = refit["estimate"], refit["found_of_its_order"]
    reduces, takes = f"`slimdex reduce {path}`", f"in {max(1, round(refit['seconds']))} s"
    gains = then - report["agreement"]["estimate"] >= GAIN
    if gains or (is_broken and then >= report["certified"]):
        return [f"{_standing(report)}; {reduces} raises it to {then:.3f} {takes}"]
    if is_broken:
        return [f"{_standing(report)}; a new fit would reach only {then:.3f}: {other}"]
    if figures.is_large and then - found >= GAIN:
        return [
            f"{_standing(report)}; a new fit ranks others first, and {found:.3f} of its ten "
            f"are found now: {reduces} fits again {takes}"
        ]
    return []


def _standing(report: dict[str, Any]) -> str:
    """The current agreement, beside the certified one."""
    now, certified = report["agreement"], report["certified"]
    said = f"agreement@10 is {now['estimate']:.3f}, at least {now['bound']:.3f}"
    if report["verdict"] == "holds":
        return f"the certified {certified:.4g} holds, so nothing has to be done; {said}"
    if report["verdict"] == "not proved":
        return f"{said}: the certified {certified:.4g} is no longer proved"
    if report["verdict"] == "broken":
        return f"{said}: below the certified {certified:.4g}"
    return said
