"""Product codes as FAISS's factory strings can't make them, searched by its fast scan all the same.

Every run of axes is a run of as many columns, those that are missing being zeros, so that runs may
differ in width. One more column gives each codeword a constant of its own, which a query adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from slimdex.indexes import score_aware
from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.faiss_index import ROUNDS_4BIT
from slimdex.indexes.score_aware import Codes, Codewords, Subvectors

from .rate_distortion import bits_of_axes

WORDS = 16
"""Codewords of a run: 4 bits."""
FAR = np.float32(1000)
"""What a query has in the column of constants; codewords have theirs by so much smaller, and rows
have zeros there, so that which codeword is nearest is not changed by it."""


@dataclass(frozen=True)
class Making:
    """How product codes are made.

    Attributes
    ----------
    by_variance : whether runs are of neighbouring axes, as wide as gives each run the same bits
        at the rate-distortion bound (transform coding); else all are of one width, axes dealt out.
    own_scale : power of each axis' spread by which it is stretched before it is coded.
    parallel : weight of the squared error along the row itself, as in `score_aware`.
    shorten : how much of a decoded row's squared length is taken off its score; `pq-l2` has 1/4.
    """

    by_variance: bool = False
    own_scale: float = 0.0
    parallel: float = 0.0
    shorten: float = 0.25


class ProductCodes:
    """Codes of unit rows, of so many runs of 4 bits, trained on rows (n, k)."""

    def __init__(self, making: Making, runs: int, rows: Matrix) -> None:
        self._making = making
        variances = np.square(rows, dtype=np.float64).mean(axis=0)
        spread = np.sqrt(np.maximum(variances, 1e-12 * variances.max()))
        scales = spread**making.own_scale
        cut = runs_by_variance if making.by_variance else runs_dealt
        axes = cut(variances * scales**2, runs)
        width, none = max(map(len, axes)) + 1, len(scales)
        self._axes = np.array([run + [none] * (width - len(run)) for run in axes])
        self._scales = np.append(scales, 1).astype(np.float32)[self._axes]
        self._coder = faiss.ProductQuantizer(self._axes.size, runs, 4)
        self._coder.cp.niter = ROUNDS_4BIT
        self._words = self._trained(rows)
        self._codes = list[NDArray[np.uint8]]()

    @property
    def row_nbytes(self) -> float:
        """Bytes of a code."""
        return len(self._axes) / 2

    def add(self, rows: Matrix) -> None:
        """Append unit rows (n, k)."""
        self._codes.append(packed(self._coded(self._laid(rows))))
        self.__dict__.pop("_index", None)

    def search(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k), best first."""
        laid = self._laid(queries) / self._scales
        laid[..., -1] = FAR
        scores, rows = self._index.search(_flat(laid), k)
        return scores, rows

    @cached_property
    def _index(self) -> Any:
        codes = np.concatenate(self._codes)
        plain: Any = faiss.IndexPQ(self._axes.size, len(self._axes), 4, faiss.METRIC_INNER_PRODUCT)
        plain.pq, plain.is_trained, plain.ntotal = self._coder, True, len(codes)
        faiss.copy_array_to_vector(codes.ravel(), plain.codes)
        return faiss.IndexPQFastScan(plain)

    def _laid(self, rows: Matrix) -> Subvectors:
        """Rows (n, k) in the columns of each run (n, runs, width)."""
        whole = np.hstack([rows, np.zeros((len(rows), 1), np.float32)])
        return whole[:, self._axes]

    def _trained(self, rows: Matrix) -> Codewords:
        """Codewords (runs, 16, width), with their constants, which the coder has from now on."""
        laid = self._laid(rows)
        self._coder.train(_flat(laid * self._scales))
        shape = (len(self._axes), WORDS, self._axes.shape[1])
        words: Codewords = faiss.vector_to_array(self._coder.centroids).reshape(shape)
        weight = self._making.parallel
        words = score_aware.train(laid * self._scales, words, weight, laid / self._scales)
        lengths = np.square(words / self._scales[:, None]).sum(axis=2)
        words[..., -1] = -self._making.shorten * lengths / FAR
        faiss.copy_array_to_vector(words.ravel(), self._coder.centroids)
        return words

    def _coded(self, laid: Subvectors) -> Codes:
        """Numbers (n, runs) of codewords: the nearest, or those of the least weighted error."""
        weight = self._making.parallel
        return score_aware.encode(laid * self._scales, self._words, weight, laid / self._scales)


def _flat(laid: Subvectors) -> Matrix:
    return np.ascontiguousarray(laid.reshape(len(laid), -1))


def runs_dealt(variances: NDArray[np.float64], runs: int) -> list[list[int]]:
    """Axes of runs of one width, dealt back and forth, which gives each a like variance.

    >>> runs_dealt(np.array([9.0, 4.0, 2.0, 1.0]), 2)
    [[0, 3], [1, 2]]
    """
    order = np.argsort(-variances, kind="stable").reshape(-1, runs)
    order[1::2] = order[1::2, ::-1]
    return [[int(axis) for axis in run] for run in order.T]


def runs_by_variance(variances: NDArray[np.float64], runs: int) -> list[list[int]]:
    """Axes, those that vary most first, in runs that would have 4 bits each at the bound.

    Every run has one axis at least, and axes that would get no bits are not coded.

    >>> runs_by_variance(np.array([256.0, 16.0, 16.0, 1e-9]), 2)  # 4 bits; 2 and 2; none
    [[0], [1, 2]]
    """
    order = np.argsort(-variances, kind="stable")
    bits = bits_of_axes(variances, 4 * runs)[order]
    coded = max(int((bits > 0).sum()), runs)
    ends = np.cumsum(bits[:coded]) - bits[:coded] / 2  # an axis belongs where its middle lies
    run = np.minimum((ends // 4).astype(int), runs - 1)
    found: list[list[int]] = [[] for _ in range(runs)]
    for place, axis in enumerate(order[:coded]):
        found[run[place]].append(int(axis))
    return _none_empty(found)


def _none_empty(runs: list[list[int]]) -> list[list[int]]:
    """The same axes, an empty run given one of the widest's."""
    for run in runs:
        if not run:
            run.append(max(runs, key=len).pop())
    return runs


def packed(codes: Codes) -> NDArray[np.uint8]:
    """Two codes a byte, the first in its lower half, as FAISS has them.

    >>> packed(np.array([[1, 2, 15, 0]])).tolist(), unpacked(packed(np.array([[1, 2]]))).tolist()
    ([[33, 15]], [[1, 2]])
    """
    return (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)


def unpacked(packed: NDArray[np.uint8]) -> Codes:
    """What `packed` packed."""
    return np.stack([packed & 15, packed >> 4], axis=2).reshape(len(packed), -1).astype(np.int64)
