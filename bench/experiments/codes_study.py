"""`slimdex bench codes`: what codes alone find, of every way to make them, at the same bytes.

No vectors are read from disk: the order of the codes is final. Each way is fitted on the documents
alone. It is timed beside `pq`, the default, in turns, query by query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.indexes.faiss_index import ALONG, FaissIndex
from slimdex.indexes.kinds import FLAT, PQ, Kind
from slimdex.indexes.linear import Whitening
from slimdex.indexes.moments import Moments
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.reduced_index import reduced, trained, training_sample
from slimdex.retrieval.evaluation import latency

from ..machine import limit_threads
from ..rows import ResultsFile, Row, key_of
from .measured_methods import part
from .paired_measures import Judge, depth_for
from .product_codes import Making, ProductCodes
from .rate_distortion import IdealCodes
from .retrieval_study import Task

TIMED_QUERIES, OWN_QUERIES = 300, 500
DEPTHS = (10, 20, 50, 100, 200, 400)
"""Candidates among which the ten of the index's own metric are looked for."""
HELD = 0.99


class Codes(Protocol):
    """Rows that were added, as codes."""

    @property
    def row_nbytes(self) -> float:
        """Bytes of a code."""
        ...

    def add(self, X: Matrix, /) -> None:
        """Append unit rows (n, k)."""
        ...

    def search(self, queries: Matrix, k: int, /) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k), best first."""
        ...


@dataclass(frozen=True)
class Trial:
    """A way to make codes of rows reduced to a share of their dimensions.

    Attributes
    ----------
    name : what tables call it.
    factory : (d) -> FAISS factory string.
    of : k is the d-th part by this.
    by_distance : whether codes are compared as `pq-l2` does.
    slow : whether it takes much longer to train, or to add, than all the others.
    making : of product codes that FAISS's factory can't make.
    ideal : no code, but what an ideal one of so many bits for each of the d dimensions gives back.
    """

    name: str
    factory: str
    of: float = 2
    gamma: float = 0.25
    by_distance: bool = False
    slow: bool = False
    making: Making | None = None
    ideal: float = 0

    def kind(self, dim: int) -> Kind:
        """The kind for vectors of `dim` dimensions; M stands for d/8, H for d/4, Q for d/16."""
        parts = {"{Q}": dim // 16, "{M}": dim // 8, "{H}": dim // 4}
        factory = self.factory
        for mark, count in parts.items():
            factory = factory.replace(mark, str(count))
        if self.ideal:
            factory = f"{round(self.ideal * dim)} bits"
        rows = 16 * PQ.max_rows if re.fullmatch(r"PQ\d+", factory) else PQ.max_rows
        return Kind(factory, "", lambda k, n: factory, max_rows=rows, by_distance=self.by_distance)

    def k(self, dim: int) -> int:
        """Dimensions that are coded."""
        return dim if self.of == 1 else part(dim, 6, round(6 / self.of))


DISTANCE, AWARE = Making(), Making(parallel=ALONG, shorten=0)
UNEQUAL, SCALED = Making(by_variance=True), Making(own_scale=0.5)
TRIALS = (
    # 1/64 of float32
    Trial("pq", "PQ{M}x4fs"),
    Trial("pq by distance", "PQ{M}x4fs", making=DISTANCE),
    Trial("pq by distance", "PQ{M}x4fs", gamma=0.5, making=DISTANCE),
    Trial("score-aware", "PQ{M}x4fs", making=AWARE),
    Trial("pq-l2", "PQ{M}x4fs", by_distance=True),
    Trial("pq-l2", "PQ{M}x4fs", gamma=0.5, by_distance=True),
    Trial("pq-l2", "PQ{M}x4fs", of=1, by_distance=True),
    Trial("pq-l2", "PQ{M}x4fs", of=1, gamma=0.5, by_distance=True),
    Trial("bits by variance", "PQ{M}x4fs", of=1, making=UNEQUAL),
    Trial("bits by variance", "PQ{M}x4fs", of=1, gamma=0.5, making=UNEQUAL),
    Trial("own scales", "PQ{M}x4fs", making=SCALED),
    Trial("own scales", "PQ{M}x4fs", gamma=0.5, making=SCALED),
    Trial("pq of 8 bits", "PQ{Q}", slow=True),
    Trial("pq of 8 bits, by distance", "PQ{Q}", by_distance=True, slow=True),
    Trial("RaBitQ", "RaBitQ", of=3),
    Trial("ideal", "", of=1, ideal=0.5),
    Trial("ideal", "", of=1, gamma=0.5, ideal=0.5),
    # 1/32
    Trial("pq", "PQ{H}x4fs"),
    Trial("pq", "PQ{H}x4fs", of=1),
    Trial("pq by distance", "PQ{H}x4fs", of=1, making=DISTANCE),
    Trial("pq-l2", "PQ{H}x4fs", by_distance=True),
    Trial("pq-l2", "PQ{H}x4fs", of=1, by_distance=True),
    Trial("pq-l2", "PQ{H}x4fs", of=1, gamma=0.5, by_distance=True),
    Trial("bits by variance", "PQ{H}x4fs", of=1, making=UNEQUAL),
    Trial("own scales", "PQ{H}x4fs", of=1, gamma=0.5, making=SCALED),
    Trial("pq of 8 bits, by distance", "PQ{M}", by_distance=True, slow=True),
    Trial("RaBitQ", "RaBitQ", of=1.2),
    Trial("RaBitQ of 2 bits", "RaBitQ2", of=3),
    Trial("RaBitQ of 4 bits", "RaBitQ4", of=6),
    Trial("ideal", "", of=1, ideal=1),
    # additive, with a norm of a byte
    Trial("product-residual", "PRQ4x12x4fs_Nrq2x4", of=1, by_distance=True, slow=True),
    Trial("product-local-search", "PLSQ8x6x4fs_Nlsq2x4", of=1, by_distance=True, slow=True),
    Trial("residual", "RQ46x4fs_Nrq2x4", of=1, by_distance=True, slow=True),
    Trial("local-search", "LSQ46x4fs_Nlsq2x4", of=1, by_distance=True, slow=True),
)


def measure_codes(
    task: Task, results: ResultsFile, about: Row, *, slow: bool = False, progress: Progress = silent
) -> None:
    """Append the rows that are not in the results yet."""
    trials = [trial for trial in TRIALS if slow or not trial.slow]
    bench = None
    for done, trial in enumerate(trials):
        progress(f"{task.dataset.name}, {task.model}", done, len(trials))
        known = task.facts() | columns(trial, task.vectors.dim)
        if (key := key_of(known)) not in results.rows:
            bench = bench or Bench(task)
            results.append({"key": key} | known | bench.measured(trial) | about)
    progress("codes", len(trials), len(trials))


def columns(trial: Trial, dim: int) -> Row:
    """What is known of a row before it is measured."""
    kind = trial.kind(dim)
    return {"method": trial.name, "kind": kind.name, "k": trial.k(dim), "gamma": trial.gamma}


class Bench:
    """A task with its exact answers, and `pq` to time others beside."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._queries: Matrix = task.queries.take(np.arange(len(task.queries)))
        self._moments = Moments.of(task.vectors.scan(), task.vectors.dim)
        self._own: dict[float, Rows] = {}
        self._judge = Judge(task.dataset, *self._exact(self._queries, depth_for(task.dataset)))
        self._usual: tuple[Whitening, Codes] = self._built(TRIALS[0])[:2]

    def measured(self, trial: Trial) -> Row:
        """Quality, seconds to train and to add, bytes a row and milliseconds of a query."""
        reducer, codes, fit_s, index_s = self._built(trial)
        short = reduced(reducer, self._queries)
        row = self._judge.columns(*codes.search(short, depth_for(self._task.dataset)))
        row["ram_row_bytes"] = codes.row_nbytes
        row["needed"] = self._needed(trial, codes.search(short[:OWN_QUERIES], DEPTHS[-1])[1])
        if trial.ideal:  # there is nothing to be timed
            return row
        ours, usual = self._seconds((reducer, codes))
        row |= {"p50_ms_one": latency(ours)["p50_ms"], "p50_ms_pq": latency(usual)["p50_ms"]}
        return row | {"fit_s": fit_s, "index_s": index_s}

    def _built(self, trial: Trial) -> tuple[Whitening, Codes, float, float]:
        """Reducer and codes, and the seconds to train them and to add all rows."""
        vectors, start = self._task.vectors, perf_counter()
        k = trial.k(vectors.dim)
        reducer = Whitening(k, 0.0, trial.gamma).fit_moments(self._moments)
        codes = self._trained(trial, reducer)
        ready = perf_counter()
        for chunk in vectors.scan():
            codes.add(reduced(reducer, chunk))
        return reducer, codes, ready - start, perf_counter() - ready

    def _trained(self, trial: Trial, reducer: Whitening) -> Codes:
        """Codes of no rows; the reducer's axes are dealt out where FAISS cuts them into runs."""
        vectors, kind = self._task.vectors, trial.kind(reducer.n_features)
        runs = kind.subquantizers(reducer.n_components, len(vectors))
        if not trial.ideal and not trial.making:
            reducer.balance_subspaces(runs)
            return trained(kind, reducer, vectors)
        rows = training_sample(reducer, vectors, kind.max_rows)
        if trial.making:
            return ProductCodes(trial.making, runs, rows)
        return IdealCodes(round(trial.ideal * vectors.dim), rows)

    def _needed(self, trial: Trial, found: Rows) -> int | None:
        """The fewest candidates that hold the own metric's ten; None: more than the deepest."""
        if trial.gamma not in self._own:
            white = Whitening(self._moments.dim, 0.0, trial.gamma).fit_moments(self._moments)
            self._own[trial.gamma] = self._exact(self._queries[:OWN_QUERIES], 10, white)[1]
        own = self._own[trial.gamma]
        for depth in DEPTHS:
            pairs = zip(own, found[:, :depth], strict=True)
            if np.mean([np.isin(ten, some).mean() for ten, some in pairs]) >= HELD:
                return depth
        return None

    def _exact(
        self, queries: Matrix, k: int, white: Whitening | None = None
    ) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k) by float32 rows, as they are or whitened."""
        index = FaissIndex(FLAT, queries.shape[1])
        for chunk in self._task.vectors.scan():
            index.add(normalize_rows(chunk) if white is None else reduced(white, chunk))
        return index.search(
            normalize_rows(queries) if white is None else reduced(white, queries), k
        )

    def _seconds(self, ours: tuple[Whitening, Codes]) -> tuple[list[float], list[float]]:
        """Of single queries, on one thread: ours and `pq`'s in turns."""
        seconds: tuple[list[float], list[float]] = ([], [])
        limit_threads(1)
        try:
            for query in _each(self._queries[:TIMED_QUERIES]):
                for (reducer, codes), spent in zip((ours, self._usual), seconds, strict=True):
                    start = perf_counter()
                    codes.search(reduced(reducer, query), 10)
                    spent.append(perf_counter() - start)
        finally:
            limit_threads(None)
        return seconds


def _each(queries: Matrix) -> Iterator[Matrix]:
    return (queries[i : i + 1] for i in range(len(queries)))
