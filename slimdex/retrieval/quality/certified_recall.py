"""Certified agreement, measured again with queries made from the current documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.bounds import betting_bound
from slimdex.indexes.ranking import agreement
from slimdex.indexes.search.ablation import exact_orders, exact_step
from slimdex.indexes.search.reduced_index import ReducedIndex

from ..catalog.state import Certificate, State
from ..trials.query_pools import ASKED
from ..trials.recall_trials import NEAREST, Pool, without_own

ERROR = 0.05
"""Probability that a bound does not hold."""
FEWEST = 3
"""Fewest documents for making queries: two, and another to find."""
"""Makes a number of queries from a snapshot's documents."""


@dataclass(frozen=True)
class Measured:
    """Agreement@10 with exact search, in the metric that an index approximates.

    Attributes
    ----------
    shares : (q,), the agreement of each query.
    truth, found : rows (q, 10) of exact search, and of the index.
    """

    shares: NDArray[np.float64]
    truth: Rows
    found: Rows

    @property
    def estimate(self) -> float:
        """Mean over the queries."""
        return float(self.shares.mean())

    @property
    def bound(self) -> float:
        """Lower bound of the mean over all such queries, wrong with probability `ERROR`."""
        return betting_bound(self.shares, ERROR)


def measured(index: ReducedIndex, pool: Pool, hidden: Rows) -> Measured:
    """Agreement of an index on a pool of queries, each with its own documents held out."""
    step, own = exact_step(index), pool.own
    deep = NEAREST + own.shape[1]
    exact = exact_orders(index, pool.vectors, deep, [step], hidden)[step]
    truth = _first(without_own(exact.rows, own))
    found = np.full_like(truth, -1)
    for i, query in enumerate(pool.vectors):
        others = np.union1d(hidden, own[i][own[i] >= 0])
        _, rows = index.search(query[None], NEAREST, exclude=others)
        found[i, : rows.shape[1]] = rows[0]
    return Measured(agreement(found, truth, NEAREST), truth, found)


def _first(rows: Rows) -> Rows:
    out: Rows = np.full((len(rows), NEAREST), -1, dtype=np.int64)
    out[:, : rows.shape[1]] = rows[:, :NEAREST]
    return out


def in_force(state: State) -> Certificate | None:
    """The certificate of the current settings, if any."""
    found = state.certificate
    return found if found is not None and found.settings == state.settings else None


def is_comparable(certificate: Certificate | None) -> TypeGuard[Certificate]:
    """True if it was measured with queries made from documents, which can be made again."""
    return certificate is not None and certificate.pool != ASKED


def verdict(certificate: Certificate, now: Measured) -> str:
    """State of a certificate: "holds", "not proved" or "broken"."""
    if now.estimate < certificate.promised:
        return "broken"
    return "holds" if now.bound >= certificate.promised else "not proved"
