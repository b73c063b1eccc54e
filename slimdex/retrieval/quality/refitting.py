"""Refitting: checks a fit after an addition, and renews it if necessary."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from slimdex.indexes.errors import InputError

from ..ingest.rewriting.fitting import refit as fit_again
from .health import Drift, drift
from .info import fit_advice, is_outgrown, kind_advice, refit_seconds

if TYPE_CHECKING:
    from ..collection import Collection

REFIT = ("auto", "never", "always")
"""Actions of an addition on an outdated fit."""
WORTH = 10
"""Longest automatic refit, in times as long as the addition: the next one comes when the documents
have doubled again."""


def check_refit(refit: str) -> None:
    """Raise `InputError` unless it is one of `REFIT`."""
    if refit not in REFIT:
        raise InputError(f"refit={refit!r}; expected {', '.join(REFIT[:-1])} or {REFIT[-1]}")


def after_addition(
    collection: Collection, before: int, seconds: float, refit: str = "auto"
) -> tuple[list[str], bool]:
    """Refit an index that an addition has outgrown, or advise it; notes, and True if it did.

    The addition is already committed; a refit is another commit. Drift takes a quarter of the time
    of an addition of a thousand documents: it is measured whenever as many were added as were
    fitted.

    A search could find `before` rows before the addition, which took so many seconds: "auto" refits
    only if that takes less than `WORTH` times as long.
    """
    snapshot = collection.snapshot
    if snapshot.state.fit["rows"] == snapshot.state.rows:  # the addition was a fit
        return [], False
    notes = kind_advice(snapshot)
    count, fitted = snapshot.searchable_count, max(snapshot.state.fitted, 1)
    is_due = is_outgrown(snapshot) and (count - 1) // fitted > (before - 1) // fitted
    if not count or (refit != "always" and not is_due):
        return notes, False
    moments = collection.read(lambda _: collection.commit_log.moments())
    figures = drift(snapshot.state, snapshot.index, moments, snapshot.hidden)
    takes = refit_seconds(snapshot.index)
    is_quick = takes is not None and takes < WORTH * seconds
    if refit == "always" or (refit == "auto" and figures.is_large and is_quick):
        return _refitted(collection, figures), True
    return [*(fit_advice(snapshot) if figures.is_large else []), *notes], False


def _refitted(collection: Collection, figures: Drift) -> list[str]:
    was_proved = collection.state.certificate is not None
    start = perf_counter()
    notes = fit_again(collection, collection.state.requested, "with the last")
    why = f"fitted on {figures.fitted:,} of {figures.rows:,} {collection.snapshot.noun}"
    if figures.variance_now is not None and figures.variance_best is not None:
        why += (
            f", it kept {figures.variance_now:.3f} of their variance and now keeps "
            f"{figures.variance_best:.3f}"
        )
    done = f"{why}; refitted in {perf_counter() - start:.1f} s"
    if was_proved:
        done += f"; `slimdex tune {collection.path}` proves an agreement again"
    return [done, *notes]
