"""Product codes that keep the error along the row itself small, which scores suffer from most.

Near neighbours of a row, and queries that it answers, lie along it. So the error that counts is
``|e|^2 + w (x . e)^2`` for a unit row x and what its code lacks, e (Guo et al. 2020, "Accelerating
Large-Scale Inference with Anisotropic Vector Quantization", theorem 3.2, with w = eta - 1). The
whole row has to be looked at to code a run of it, so runs are coded in turns.

Words are the codewords of each run of columns, (runs, words, width).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import Matrix, batches

Codewords = NDArray[np.float32]
Codes = NDArray[np.int64]
Laid = NDArray[np.float32]
"""Rows cut into their runs: (n, runs, width)."""
SWEEPS = 2
"""How often each run is coded again; a third changes hardly a code."""
ROUNDS = 5
"""Of codes and codewords in turns, when codewords are trained."""
AT_ONCE = 1024
"""Rows whose products with all codewords, 4 bytes each, are in memory at once."""


def coded(rows: Laid, words: Codewords, weight: float, along: Laid | None = None) -> Codes:
    """Numbers (n, runs) of codewords: the nearest, then run by run those of least weighted error.

    Parameters
    ----------
    weight : w; 0 is the plain squared error, and its codes are the nearest codewords.
    along : what has the inner product 1 with each row, if that is not the row itself.

    >>> words = np.array([[[0.8, 0.0], [1.0, 0.3]]], dtype=np.float32)  # short, and beside it
    >>> row = np.array([[[1.0, 0.0]]], dtype=np.float32)
    >>> coded(row, words, weight=0).tolist(), coded(row, words, weight=3).tolist()
    ([[0]], [[1]])
    """
    codes = np.empty(rows.shape[:2], dtype=np.int64)
    for part in batches(len(rows), AT_ONCE):
        products = _products(rows[part], words)
        lengths = np.square(words).sum(axis=2)[:, None]
        codes[part] = (lengths - 2 * products).argmin(axis=2).T
        if weight:
            taken = products if along is None else _products(along[part], words)
            codes[part] = _recoded(products, taken, lengths, codes[part], weight)
    return codes


def trained(rows: Laid, words: Codewords, weight: float, along: Laid | None = None) -> Codewords:
    """Codewords that lessen the weighted error of these rows, from those of plain k-means."""
    for _ in range(ROUNDS if weight else 0):
        codes = coded(rows, words, weight, along)
        words = _refitted(rows, rows if along is None else along, words, codes, weight)
    return words


def decoded(codes: Codes, words: Codewords) -> Laid:
    """Rows (n, runs, width) as their codes give them back."""
    return np.asarray(words[np.arange(len(words)), codes])


def laid(X: Matrix, runs: int) -> Laid:
    """Rows (n, k) cut into so many runs of as many columns."""
    return X.reshape(len(X), runs, -1)


def _products(rows: Laid, words: Codewords) -> NDArray[np.float32]:
    """Of each run with its codewords: (runs, n, words)."""
    return np.asarray(rows.transpose(1, 0, 2) @ words.transpose(0, 2, 1))


def _recoded(
    products: NDArray[np.float32],
    taken: NDArray[np.float32],
    lengths: NDArray[np.float32],
    codes: Codes,
    weight: float,
) -> Codes:
    """Codes of less weighted error, from products (runs, n, words) of rows and what is along them.

    ``left`` is what the other runs lack along the row: 1 less their share of the product.
    """
    every, codes = np.arange(len(codes)), codes.T.copy()
    fixed = lengths - 2 * products + weight * np.square(taken)
    left = 1 - sum(share[every, chosen] for share, chosen in zip(taken, codes, strict=True))
    for _ in range(SWEEPS):
        for share, error, chosen in zip(taken, fixed, codes, strict=True):
            left += share[every, chosen]
            chosen[:] = (error - 2 * weight * left[:, None] * share).argmin(axis=1)
            left -= share[every, chosen]
    return codes.T


def _refitted(rows: Laid, along: Laid, words: Codewords, codes: Codes, weight: float) -> Codewords:
    """Codewords of the least weighted error for these codes, run by run; unused ones stay."""
    words = words.copy()
    left = 1 - np.vecdot(along, decoded(codes, words)).sum(axis=1)
    for run, its in enumerate(words):
        chosen = codes[:, run]
        left += np.vecdot(along[:, run], its[chosen])
        for word in np.unique(chosen):
            mine = chosen == word
            x, u = rows[mine, run].astype(np.float64), along[mine, run].astype(np.float64)
            matrix = len(x) * np.eye(words.shape[2]) + weight * u.T @ u
            its[word] = np.linalg.solve(matrix, x.sum(axis=0) + weight * u.T @ left[mine])
        left -= np.vecdot(along[:, run], its[chosen])
    return words
