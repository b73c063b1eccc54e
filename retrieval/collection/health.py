"""Health: how far an index's documents are from those that it was fitted on, and what that costs.

Two figures are cheap and exact, or nearly so: the share of variance that the axes keep, and the
error of new rows' codes beside old ones'. What they cost in answers is measured: the share of the
ten nearest by exact search that is found, by queries made of the documents as they are now; and,
with a fit of today that is made in memory and thrown away, what `reduce` would restore.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from slimdex.indexes.errors import InputError
from slimdex.indexes.linear import Linear
from slimdex.indexes.moments import Moments
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.ranking import agreement

from .certified_recall import (
    ERROR,
    MakePool,
    Measured,
    in_force,
    is_comparable,
    measured,
    promised,
    verdict,
)
from .fit_drift import Drift, drift
from .ledger import Ledger
from .recall_trials import NEAREST, Pool, built
from .snapshot import Snapshot

QUERIES = 2000
"""By which `health` measures: a recall with a spread of 0.23 by query is then within .01 of that by
any number of them, but for one time in twenty."""
GAIN = 0.005
"""Of recall: to find less than that more is no reason to fit anew."""


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
