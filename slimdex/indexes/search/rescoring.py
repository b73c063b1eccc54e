"""Rescoring: whitened cosines at full dimension, with one dot product per candidate.

With M = U diag(lambda^(-gamma/2)) over all d dimensions, the cosine of a query q and a row x
after ``(. - beta*mean) M`` is ``a . (x - beta*mean) / |(x - beta*mean) M|`` up to the query's own
length, where ``a = (q - beta*mean) M M^T`` is computed once per query. The row's length is stored
on disk, so no row is multiplied by a matrix at search time. With gamma = 0, M is a rotation and
M M^T the identity, which is not stored.

Queries are mapped one by one, and each score of a search is a dot product of its own: a product of
matrices rounds a row's score by its place and by the number of queries, and near ties would change
their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError
from slimdex.system.spare_threads import in_parallel
from slimdex.system.threads import product

from ..arrays import Matrix, Rows, as_matrix, batches
from ..ranking import best_of, stack_results, top_k
from ..reducers.linear import whitening_axes
from ..reducers.moments import Moments
from ..tensors import check_tensor, load_tensors, save_tensors
from ..vectors.vector_file import VectorFile

PIECE_BYTES = 1 << 20
"""Bytes of float32 rows scored at once, to stay in the processor's cache and on one BLAS thread."""
HALVED_FROM = 300
"""Smallest number of rows that two threads read and score."""


class Probes(NamedTuple):
    """Queries mapped into a metric.

    Attributes
    ----------
    vectors : (q, d), ``a`` of the module docstring, divided by the query's length in the metric.
    shifts : (q,), the product of ``a`` and the metric's shift; None if the shift is zero.
    """

    vectors: Matrix
    shifts: NDArray[np.float32] | None

    def scores(self, X: Matrix, norms: Matrix) -> Matrix:
        """Cosines (q, n) with rows X (n, d) whose lengths in the metric are norms (n, 1)."""
        return self._cosines(product(self.vectors, X.T), norms)

    def steady_scores(self, X: Matrix, norms: Matrix) -> Matrix:
        """Cosines as `scores`, but independent of other rows and queries; slower for many."""
        return self._cosines(np.vecdot(self.vectors[:, None], X[None]), norms)

    def _cosines(self, products: Matrix, norms: Matrix) -> Matrix:
        """Turn products (q, n) of `vectors` and rows into cosines, in place."""
        if self.shifts is not None:
            products -= self.shifts[:, None]
        if not norms.all():
            norms = np.where(norms == 0.0, np.float32(np.inf), norms)  # zero rows score 0
        products /= norms[:, 0]
        return products


class Rescorer:
    """Metric ``gram = M M^T`` (d, d; None: identity) around ``shift = beta * mean`` (d,)."""

    def __init__(self, gram: Matrix | None, shift: NDArray[np.float32]) -> None:
        self.gram = gram
        self.shift = shift
        self._has_shift = bool(shift.any())

    @classmethod
    def fit(cls, moments: Moments, beta: float, gamma: float) -> Rescorer:
        """Fit the metric of ``Whitening(d, beta, gamma)``."""
        shift = (beta * moments.mean).astype(np.float32)
        if gamma == 0.0:
            return cls(None, shift)
        scales, axes = whitening_axes(moments, beta, gamma)
        scaled = axes * scales
        return cls(product(scaled, scaled.T).astype(np.float32), shift)

    @property
    def nbytes(self) -> int:
        """Resident bytes."""
        return self.shift.nbytes + (0 if self.gram is None else self.gram.nbytes)

    def norms(self, X: Matrix) -> Matrix:
        """Lengths (n, 1) of rows (n, d) in this metric."""
        centred = as_matrix(X, dim=len(self.shift)) - self.shift
        squares = np.vecdot(self._times_gram(centred), centred)
        norms: Matrix = np.sqrt(np.maximum(squares, 0.0))[:, None].astype(np.float32)
        return norms

    def mean_row(self, moments: Moments) -> NDArray[np.float32]:
        """Mean of rows (d,) less the shift, divided by their root mean square length.

        Its product with a probe's vector approximates the probe's mean cosine with these rows.
        """
        covariance = moments.scatter / max(moments.n, 1)
        centred = moments.mean - self.shift
        # Mean square length: the variance of the rows plus the squared length of their mean.
        if self.gram is None:
            mean_square = covariance.trace() + centred @ centred
        else:
            mean_square = np.vdot(self.gram, covariance) + centred @ self.gram @ centred
        return (centred / sqrt(mean_square or 1.0)).astype(np.float32)

    def probes(self, queries: Matrix) -> Probes:
        """Map queries (q, d) into the metric; nothing else in a search is multiplied by `gram`."""
        centred = queries - self.shift if self._has_shift else queries
        vectors = np.empty_like(centred)
        for i in range(len(centred)):
            vectors[i] = self._times_gram(centred[i : i + 1])[0]
        lengths = np.sqrt(np.maximum(np.vecdot(vectors, centred), 0.0))[:, None]
        if not lengths.all():
            lengths[lengths == 0.0] = np.inf  # a zero query scores 0
        vectors = vectors / lengths
        shifts = np.vecdot(vectors, self.shift) if self._has_shift else None
        return Probes(vectors, shifts)

    def save(self, path: Path) -> None:
        """Write as safetensors."""
        gram = {} if self.gram is None else {"gram": self.gram}
        save_tensors(path, "rescorer", {}, gram | {"shift": self.shift})

    @classmethod
    def load(cls, path: Path) -> Rescorer:
        """Load a file written by `save`; raise `CorruptError` for anything else."""
        kind, _, arrays = load_tensors(path)
        if kind != "rescorer" or set(arrays) - {"gram"} != {"shift"}:
            raise CorruptError(f"{path}: holds {kind!r}; expected a rescorer")
        check_tensor(path, "shift", arrays["shift"], (None,), np.float32)
        dim = len(arrays["shift"])
        if "gram" in arrays:
            check_tensor(path, "gram", arrays["gram"], (dim, dim), np.float32)
        return cls(arrays.get("gram"), arrays["shift"])

    def _times_gram(self, centred: Matrix) -> Matrix:
        return centred if self.gram is None else product(centred, self.gram)


@dataclass(frozen=True)
class Metric:
    """Full-dimension metric with the vectors and their lengths on disk."""

    rescorer: Rescorer
    vectors: VectorFile
    norms: VectorFile

    def with_vectors(self, vectors: VectorFile) -> Metric:
        """Return the metric over an extended vector file, with norms of its own."""
        return replace(self, vectors=vectors, norms=self.norms.reopen())

    def scores(self, probes: Probes, rows: Rows) -> Matrix:
        """Cosines (q, n) of queries with the given rows (n,)."""
        self.vectors.prefetch(rows)
        self.norms.prefetch(rows)
        if len(rows) < HALVED_FROM:
            return self._scores(probes, rows)
        # A spare thread scores the last half in parallel.
        half = len(rows) // 2
        with in_parallel(partial(self._scores, probes), [rows[half:]]) as results:
            return np.hstack([self._scores(probes, rows[:half]), *results()])

    def _scores(self, probes: Probes, rows: Rows) -> Matrix:
        """Cosines as in `scores`, computed on this thread; reads the rows piece by piece."""
        at_once = max(PIECE_BYTES // (4 * self.vectors.dim), 1)
        out = np.empty((len(probes.vectors), len(rows)), dtype=np.float32)
        for part in batches(len(rows), at_once):
            X = self.vectors.take_into_scratch(rows[part])
            norms = self.norms.take(rows[part])
            out[:, part] = probes.steady_scores(X, norms)
        return out

    def rescore(self, queries: Matrix, k: int, candidates: Rows) -> tuple[Matrix, Rows]:
        """Return scores and rows (q, k) of the nearest of each query's candidates (q, m).

        Scores and rows are padded with -inf and -1; candidates may be padded with -1.
        """
        results = []
        for i, rows in enumerate(candidates):
            probe = self.rescorer.probes(queries[i : i + 1])
            in_file_order = np.sort(rows[rows >= 0])
            results.append(top_k(self.scores(probe, in_file_order), in_file_order, k))
        return stack_results(results, k)

    def nearest(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """Return scores and rows (q, k) nearest among rows (n,), padded with -inf and -1."""
        probes = self.rescorer.probes(queries)
        parts = batches(len(rows))
        chunks = ((self.scores(probes, rows[part]), rows[part]) for part in parts)
        return best_of(chunks, len(queries), k)
