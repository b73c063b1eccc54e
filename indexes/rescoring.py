"""Rescoring: the whitened cosine at full dimension, in one dot product a candidate.

With M = U diag(lambda^(-gamma/2)) over all d dimensions, the cosine of a query q and a row x
after ``(. - beta*mean) M`` is ``a . (x - beta*mean) / |(x - beta*mean) M|`` up to the query's own
length, where ``a = (q - beta*mean) M M^T`` is computed once a query. The row's length is kept
on disk, so that no row is ever multiplied by a matrix at search time. With gamma = 0, M is a
rotation and M M^T the identity, which is neither kept nor multiplied with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

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


class Rescorer:
    """The metric ``gram = M M^T`` (d, d; None: identity) around ``shift = beta * mean`` (d,)."""

    def __init__(self, gram: Matrix | None, shift: NDArray[np.float32]) -> None:
        self.gram, self.shift = gram, shift

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

    def scores(self, queries: Matrix, X: Matrix, norms: Matrix) -> Matrix:
        """Cosines (q, n) of queries (q, d) with rows X (n, d) whose lengths are norms (n, 1)."""
        centred = queries - self.shift
        probes = self._times_gram(centred)
        lengths = np.sqrt(np.maximum(np.vecdot(probes, centred), 0.0))
        products = probes @ X.T
        products -= (probes @ self.shift)[:, None]
        scale = lengths[:, None] * norms[:, 0]
        scale[scale == 0.0] = np.inf  # nothing resembles a row or a query of no length
        products /= scale
        return products.astype(np.float32, copy=False)

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

    def scores(self, queries: Matrix, rows: Rows) -> Matrix:
        """Cosines (q, n) of queries (q, d) with the given rows (n,)."""
        out = np.empty((len(queries), len(rows)), dtype=np.float32)
        for part in batches(len(rows), max(PIECE_BYTES // (4 * self.vectors.dim), 1)):
            vectors, norms = self.vectors.take(rows[part]), self.norms.take(rows[part])
            out[:, part] = self.rescorer.scores(queries, vectors, norms)
        return out

    def nearest(self, queries: Matrix, k: int, rows: Rows) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k) of the nearest of the given rows (n,), padded with -inf and -1."""
        chunks = (rows[part] for part in batches(len(rows)))
        return best_of(((self.scores(queries, chunk), chunk) for chunk in chunks), len(queries), k)
