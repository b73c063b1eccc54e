"""Made vectors: as many as are asked for, from a seed, so that large indexes need no encoder.

A row is a topic, of which there are some thousands, and what it says of its topic, both of low
rank with a decaying spectrum, plus noise in all dimensions. What they mean costs no time to encode,
and no memory: rows are made when they are asked for, and the same whenever they are.
"""

from __future__ import annotations

import hashlib
from time import perf_counter

import numpy as np

from slimdex.indexes.arrays import Matrix

RANK, TOPICS = 64, 4096
WITHIN, NOISE = 0.7, 0.7
"""Length of what is said of a topic, and of the noise, beside a topic of length 1."""
BLOCK = 8192
"""Rows that are made together."""
QUERIES = 1 << 40
"""Where the blocks of queries begin: no index has as many."""


class MadeVectors:
    """Rows of an index, as `GivenVectors`, and queries of the same kind, which are none of them.

    Attributes
    ----------
    seconds : that making rows has taken so far.

    >>> few = MadeVectors(dim=96, count=20_000)
    >>> few.rows(8190, 8195).shape
    (5, 96)
    >>> bool((few.rows(8190, 8195)[2:] == few.rows(8192, 8195)).all())
    True
    """

    def __init__(self, dim: int, count: int, seed: int = 0) -> None:
        self.name, self.dim, self.seconds = "made vectors", dim, 0.0
        self._count, self._seed = count, seed
        rng = np.random.default_rng(seed)
        directions = np.linalg.qr(rng.standard_normal((dim, min(RANK, dim))))[0].T
        scale = 1 / np.sqrt(np.arange(1, len(directions) + 1))
        self._basis: Matrix = (directions * (scale / np.linalg.norm(scale))[:, None]).astype("f4")
        self._topics: Matrix = self._low_rank(rng, TOPICS)
        self._made: tuple[int, Matrix] = (-1, np.empty((0, dim), np.float32))

    def __len__(self) -> int:
        return self._count

    def rows(self, start: int, stop: int) -> Matrix:
        """Rows start .. stop (n, dim), float32."""
        first, last = start // BLOCK, (stop - 1) // BLOCK
        whole = [self._block(i) for i in range(first, last + 1)]
        return np.concatenate(whole)[start - first * BLOCK : stop - first * BLOCK]

    def queries(self, count: int) -> Matrix:
        """Vectors (count, dim) on the same topics."""
        return self._block(QUERIES)[:count]

    def fingerprint(self) -> str:
        """From the shape and the seed, which all values follow from."""
        return hashlib.sha256(f"{self.dim} {self._count} {self._seed}".encode()).hexdigest()

    def _block(self, number: int) -> Matrix:
        if self._made[0] != number:
            start = perf_counter()
            rng = np.random.default_rng([self._seed, number])
            X = self._low_rank(rng, BLOCK)
            X *= WITHIN
            X += self._topics[rng.integers(TOPICS, size=BLOCK)]
            noise = rng.standard_normal((BLOCK, self.dim), dtype=np.float32)
            X += noise * (NOISE / np.sqrt(self.dim, dtype=np.float32))
            self._made = (number, X)
            self.seconds += perf_counter() - start
        return self._made[1]

    def _low_rank(self, rng: np.random.Generator, count: int) -> Matrix:
        X: Matrix = rng.standard_normal((count, len(self._basis)), dtype=np.float32) @ self._basis
        return X
