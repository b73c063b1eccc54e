"""Certified agreement: measured again by queries of the documents as they are now, and judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.ablation import exact_orders, exact_step
from slimdex.indexes.arrays import Rows
from slimdex.indexes.bounds import betting_bound
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.ranking import agreement
from slimdex.indexes.reduced_index import ReducedIndex

from ..catalog.certificate import Certificate
from ..catalog.state import State
from .query_pools import ASKED
from .recall_trials import NEAREST, Pool, without_own
from .snapshot import Snapshot

ERROR = 0.05
"""Probability that a bound of ours does not hold."""
FEWEST = 3
"""Documents of which queries can be made: two, and another to find."""
MakePool = Callable[[Snapshot, int, Progress], Pool]
"""Gives so many queries made of a snapshot's documents."""


@dataclass(frozen=True)
class Measured:
    """Agreement@10 by some queries with exact search in the metric that an index approximates.

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
    """The agreement of an index by a pool of queries, each with its own documents held out."""
    step, own = exact_step(index), pool.own
    deep = NEAREST + own.shape[1]
    exact = exact_orders(index, pool.vectors, deep, [step], hidden, progress)[step]
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
    """The certificate of the settings that are in force, if there is one."""
    found = state.certificate
    return found if found is not None and found.settings == state.settings else None


def is_comparable(certificate: Certificate | None) -> TypeGuard[Certificate]:
    """Whether it is by queries made of documents, like those that we can make anew."""
    return certificate is not None and certificate.pool != ASKED


def promised(certificate: Certificate) -> float:
    """The agreement that was asked for; where none was, the bound that was proved."""
    return certificate.bound if certificate.target is None else certificate.target


def verdict(certificate: Certificate, now: Measured) -> str:
    """Whether what was certified is so: "holds", "not proved" any more, or "broken"."""
    if now.estimate < promised(certificate):
        return "broken"
    return "holds" if now.bound >= promised(certificate) else "not proved"
