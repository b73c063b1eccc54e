"""Drift: distance of an index's documents from those that it was fitted on.

The figures are cheap, and exact or nearly so; their effect on answers is measured elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Rows, without
from slimdex.indexes.reducers.drift import variance_kept
from slimdex.indexes.reducers.linear import Linear
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import ReducedIndex

from ..catalog.state import State
from ..storage.index_files import sampled_error

VARIANCE_MISSED = 0.01
"""Share of the variance that a new fit would gain and that matters: smaller effects are noise."""
ERROR_GREW = 1.15
"""Growth of the codes' error that matters. They were trained on the rows of the fit: of other rows
like them it is 9% more with 700 rows, 5% with 2,000."""


@dataclass(frozen=True)
class Drift:
    """Figures of drift.

    Attributes
    ----------
    documents : live documents.
    since : documents added after the fit.
    fitted : documents that the reducer was fitted on.
    variance_then, variance_now : share kept by the reducer's axes, at the fit and now.
    variance_best : share that axes fitted to the current documents would keep.
    error_then, error_old, error_new : error of the codes at the fit, and now that of documents from
        before and from after the fit.
    """

    documents: int
    since: int
    fitted: int
    variance_then: float | None
    variance_now: float | None
    variance_best: float | None
    error_then: float | None
    error_old: float | None
    error_new: float | None

    @property
    def is_large(self) -> bool:
        """True if the fit may impair answers."""
        if not self.since:
            return False
        missed = grew = False
        if self.variance_best is not None and self.variance_now is not None:
            missed = self.variance_best - self.variance_now > VARIANCE_MISSED
        if self.error_then is not None and self.error_new is not None:
            grew = self.error_new > ERROR_GREW * self.error_then
        return missed or grew

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON-serialisable values."""
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
    """Measure the drift of a committed state.

    Parameters
    ----------
    moments : of the live documents.
    hidden : rows (n,), sorted, that no search finds.
    """
    then, live = state.fit, without(np.arange(len(index)), hidden)
    first = int(np.searchsorted(live, then["rows"]))
    return Drift(
        documents=len(live),
        since=len(live) - first,
        fitted=state.fitted,
        variance_then=then.get("variance_kept"),
        variance_now=variance_kept(index.reducer, moments),
        variance_best=_best_variance(state, index, moments),
        error_then=then.get("code_error"),
        error_old=sampled_error(index, live[:first]),
        error_new=sampled_error(index, live[first:]),
    )


def _best_variance(state: State, index: ReducedIndex, moments: Moments) -> float | None:
    """Share of variance that a new fit would keep; only for linear reducers, without vectors."""
    if state.settings is None or not moments.n or not isinstance(index.reducer, Linear):
        return None
    return variance_kept(state.settings.fit_reducer(index.vectors, moments), moments)
