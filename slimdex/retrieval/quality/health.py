"""Health: drift of an index's documents from those it was fitted on, and its effect.

Two figures are cheap and exact, or nearly so: the share of variance kept by the axes, and the
error of new rows' codes compared with old ones. The effect on answers is measured: agreement with
exact search on queries made from the current documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slimdex.indexes.confidence_bound import betting_bound
from slimdex.indexes.ranking import agreement
from slimdex.indexes.reducers.drift import variance_kept
from slimdex.indexes.reducers.linear import Linear

from ..index import Index
from ..store.index_files import estimate_code_error
from ..store.snapshot import Snapshot
from ..store.state import Certificate
from .query_pools import FROM_USER, document_pool
from .recall_trials import ERROR, NEAREST, answers, exact_nearest_of

VARIANCE_MISSED = 0.01
"""Share of the variance that a new fit would gain and that matters: smaller effects are noise."""
ERROR_GREW = 1.15
"""Growth of the codes' error that matters. They were trained on the rows of the fit: of other rows
like them it is 9% more with 700 rows, 5% with 2,000."""


def drift(snapshot: Snapshot) -> dict[str, Any]:
    """Measure how far the documents are from those of the fit.

    Returns ``rows``, ``rows_since_fit``, ``fitted_rows``, ``variance_kept`` and ``code_error`` of
    `health`.
    """
    # Rows that can be found, in order of addition; those from `first_new` on came after the fit.
    state = snapshot.state
    index = snapshot.index
    moments = snapshot.moments()
    live = snapshot.searchable_rows()
    first_new = int(np.searchsorted(live, state.fit.rows if state.fit else 0))

    # The variance that a new fit would keep.
    best = None
    if state.settings is not None and moments.n and isinstance(index.reducer, Linear):
        best = variance_kept(state.settings.fit_reducer(index.vectors, moments), moments)
    return {
        "rows": len(live),
        "rows_since_fit": len(live) - first_new,
        "fitted_rows": state.fit_rows,
        "variance_kept": {
            "at_fit": state.fit and state.fit.variance_kept,
            "now": variance_kept(index.reducer, moments),
            "refitted": best,
        },
        "code_error": {
            "at_fit": state.fit and state.fit.code_error,
            "old_rows": estimate_code_error(index, live[:first_new]),
            "new_rows": estimate_code_error(index, live[first_new:]),
        },
    }


def has_drifted(figures: Mapping[str, Any]) -> bool:
    """Return whether the drift may impair answers; figures of `drift` are None if not known."""
    variance = figures["variance_kept"]
    error = figures["code_error"]
    missed = (variance["refitted"] or 0.0) - (variance["now"] or 1.0)
    growth = (error["new_rows"] or 0.0) / (error["at_fit"] or np.inf)
    is_large = missed > VARIANCE_MISSED or growth > ERROR_GREW
    return figures["rows_since_fit"] > 0 and is_large


def verdict(certificate: Certificate, estimate: float, bound: float) -> str:
    """Compare a certificate with the agreement now: "holds", "not proved" (any more) or "broken".

    It is broken if even the estimate is below what was certified.
    """
    if estimate < certificate.promised:
        return "broken"
    return "holds" if bound >= certificate.promised else "not proved"


def health(index: Index, sample: int) -> dict[str, Any]:
    """Measure how far the documents are from those that the index was fitted on.

    Agreement with exact search in the index's metric is measured by queries made of documents, each
    held out of its own answers. That takes a pass over all vectors.

    Parameters
    ----------
    sample : number of queries, 1 or more; with 2000 and a standard deviation of 0.23 per query, the
        agreement is within .01 of its limit in 19 of 20 cases.

    Returns
    -------
    ``rows``, ``rows_since_fit``, ``fitted_rows`` : counts of documents; of passages, if texts are
        cut.
    ``variance_kept`` : share of the vectors' variance on the reducer's axes, ``at_fit``,
        ``now`` and ``refitted``; None for reducers without axes.
    ``code_error`` : mean squared error of the codes of unit vectors, ``at_fit``, and now of
        ``old_rows`` and ``new_rows``.
    ``agreement`` : ``estimate`` of agreement@10 and its lower ``bound``, wrong with probability
        ``error``; number of ``queries``, and their ``pool``.
    ``certified`` : the certified agreement or None; ``verdict`` : "holds", "not
        proved" (any more) or "broken"; None if it was certified by given queries.
    """
    return index.read(_report, index, sample)


def _report(snapshot: Snapshot, index: Index, sample: int) -> dict[str, Any]:
    """Measure the health of a snapshot; returns what `health` describes."""
    snapshot.open()  # so that its files stay readable while it is measured

    certificate = snapshot.state.certificate

    # Agreement now.
    pool = document_pool(snapshot, index.encoder_if_any, sample, np.random.default_rng(0))
    truth = exact_nearest_of(snapshot.index, pool, snapshot.searchable_rows())
    rows, _ = answers(snapshot.index, pool, snapshot.hidden)
    shares = agreement(rows, truth, NEAREST)
    estimate = float(shares.mean())
    bound = betting_bound(shares, ERROR)

    # Queries that were given can't be made again, so nothing can be compared with theirs.
    state_of_proof = None
    if certificate is not None and certificate.pool != FROM_USER:
        state_of_proof = verdict(certificate, estimate, bound)
    return drift(snapshot) | {
        "agreement": {
            "estimate": estimate,
            "bound": bound,
            "error": ERROR,
            "queries": len(pool),
            "pool": pool.name,
        },
        "certified": certificate and certificate.promised,
        "verdict": state_of_proof,
    }
