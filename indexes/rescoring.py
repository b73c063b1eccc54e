"""Rescoring: the whitened cosine at full dimension, in one dot product a candidate.

With M = U diag(lambda^(-gamma/2)) over all d dimensions, the cosine of a query q and a row x
after ``(. - beta*mean) M`` is ``a . (x - beta*mean) / |(x - beta*mean) M|`` up to the query's own
length, where ``a = (q - beta*mean) M M^T`` is computed once a query. The row's length is kept
on disk, so that no row is ever multiplied by a matrix at search time. With gamma = 0, M is a
rotation and M M^T the identity, which is neither kept nor multiplied with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arrays import Matrix, Rows, as_matrix, batches
from .errors import CorruptError
from .linear import whitening_axes
from .moments import Moments
from .ranking import best_of
from .tensors import check_tensor, load_tensors, save_tensors
from .vector_file import VectorFile

PIECE_BYTES = 1 << 20
"""Of float32 rows scored at a time: more leaves the processor's cache and wakes BLAS's threads."""


class Probes(NamedTuple):
    """Queries in a metric.

    Attributes
    ----------
    vectors : (q, d), ``a`` in the text above, divided by the query's own length in the metric.
    shifts : (q,), what the metric's own shift adds to each product; None if that is nothing.
    """

    vectors: Matrix
    shifts: NDArray[np.float32] | None

    def each(self) -> Iterator[Probes]:
        """One query at a time."""
        for i in range(len(self.vectors)):
            shifts = None if self.shifts is None else self.shifts[i : i + 1]
            yield Probes(self.vectors[i : i + 1], shifts)

    def scores(self, X: Matrix, norms: Matrix) -> Matrix:
        """Cosines (q, n) with rows X (n, d) whose lengths in the metric are norms (n, 1)."""
        products = self.vectors @ X.T
        if self.shifts is not None:
            products -= self.shifts[:, None]
        if not norms.all():
            norms = np.where(norms == 0.0, np.float32(np.inf), norms)  # they resemble nothing
        products /= norms[:, 0]
        return products


class Rescorer:
    """The metric ``gram = M M^T`` (d, d; None: identity) around ``shift = beta * mean`` (d,)."""

    def __init__(self, gram: Matrix | None, shift: NDArray[np.float32]) -> None:
        self.gram, self.shift = gram, shift
        self._shifts = bool(shift.any())

    @classmethod
    def fit(cls, moments: Moments, beta: float, gamma: float) -> Rescorer:
        """The metric of ``Whitening(d, beta, gamma)``."""
        shift = (beta * moments.mean).astype(np.float32)
        if gamma == 0.0:
            return cls(None, shift)
        scales, axes = whitening_axes(moments, beta, gamma)
        scaled = axes * scales
        return cls((scaled @ scaled.T).astype(np.float32), shift)

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

    def probes(self, queries: Matrix) -> Probes:
        """Queries (q, d) as rows are scored by them; it takes the one product with the metric."""
        centred = queries - self.shift if self._shifts else queries
        vectors = self._times_gram(centred)
        lengths = np.sqrt(np.maximum(np.vecdot(vectors, centred), 0.0))[:, None]
        if not lengths.all():
            lengths[lengths == 0.0] = np.inf  # nothing resembles a query of no length
        vectors = vectors / lengths
        return Probes(vectors, vectors @ self.shift if self._shifts else None)

    def save(self, path: Path) -> None:
        """Write as safetensors."""
        gram = {} if self.gram is None else {"gram": self.gram}
        save_tensors(path, "rescorer", {}, gram | {"shift": self.shift})

    @classmethod
    def load(cls, path: Path) -> Rescorer:
        """Read what `save` wrote; raises `CorruptError` for anything else."""
        kind, _, arrays = load_tensors(path)
        if kind != "rescorer" or set(arrays) - {"gram"} != {"shift"}:
            raise CorruptError(f"{path}: holds {kind!r}; expected a rescorer")
        check_tensor(path, "shift", arrays["shift"], (None,), np.float32)
        dim = len(arrays["shift"])
        if "gram" in arrays:
            check_tensor(path, "gram", arrays["gram"], (dim, dim), np.float32)
        return cls(arrays.get("gram"), arrays["shift"])

    def _times_gram(self, centred: Matrix) -> Matrix:
        return centred if self.gram is None else centred @ self.gram


@dataclass(frozen=True)
class Metric:
    """What rescoring reads: the full-dimension metric, vectors and their lengths in it, on disk."""

    rescorer: Rescorer
    vectors: VectorFile
    norms: VectorFile

    def on(self, vectors: VectorFile) -> Metric:
        """The metric over a vector file that has grown; this one's norms stay as they are."""
        return replace(self, vectors=vectors, norms=self.norms.reopened())

    def probes(self, queries: Matrix) -> Probes:
        """What `scores` takes, of queries (q, d)."""
        return self.rescorer.probes(queries)

    def scores(self, probes: Probes, rows: Rows) -> Matrix:
        """Cosines (q, n) of queries with the given rows (n,)."""
        self.vectors.expect(rows)
        self.norms.expect(rows)
        at_once = max(PIECE_BYTES // (4 * self.vectors.dim), 1)
        if len(rows) <= at_once:
            return self._scores(probes, rows)
        out = np.empty((len(probes.vectors), len(rows)), dtype=np.float32)
        for part in batches(len(rows), at_once):
            out[:, part] = self._scores(probes, rows[part])
        return out

    def _scores(self, probes: Probes, rows: Rows) -> Matrix:
        return probes.scores(self.vectors.take_briefly(rows), self.norms.take(rows))

    def nearest(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k) of the nearest of the given rows (n,), padded with -inf and -1."""
        probes, chunks = self.probes(queries), (rows[part] for part in batches(len(rows)))
        return best_of(((self.scores(probes, chunk), chunk) for chunk in chunks), len(queries), k)
