"""Anisotropic product quantisation: codes that minimise the error parallel to the row.

A row's near neighbours and the queries it answers point in its direction, so the parallel error
changes their scores most. The loss is ``|e|^2 + w (x . e)^2`` for a unit row x with quantisation
error e (Guo et al. 2020, "Accelerating Large-Scale Inference with Anisotropic Vector
Quantization", theorem 3.2, with w = eta - 1). It couples the subspaces, so they are encoded by
coordinate descent.

Codewords have the shape (subspaces, codewords, width).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Matrix, batches
from ..execution.threads import product

Codewords = NDArray[np.float32]
Codes = NDArray[np.int64]
Subvectors = NDArray[np.float32]
"""Rows split into subspaces: (n, subspaces, width)."""
SWEEPS = 2
"""Passes of coordinate descent; a third changes hardly any code."""
ROUNDS = 5
"""Rounds of training, alternating codes and codewords."""
AT_ONCE = 1024
"""Rows encoded at a time; their products with all codewords take 4 bytes each."""


def encode(
    rows: Subvectors, words: Codewords, weight: float, along: Subvectors | None = None
) -> Codes:
    """Encode rows: nearest codewords first, then coordinate descent on the weighted error.

    Parameters
    ----------
    weight : w; 0 is the plain squared error, minimised by the nearest codewords.
    along : vectors with inner product 1 with each row; None for the rows themselves.

    Returns
    -------
    Codeword numbers (n, subspaces).

    >>> words = np.array([[[0.8, 0.0], [1.0, 0.3]]], dtype=np.float32)  # short; oblique
    >>> row = np.array([[[1.0, 0.0]]], dtype=np.float32)
    >>> encode(row, words, weight=0).tolist(), encode(row, words, weight=3).tolist()
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


def train(
    rows: Subvectors, words: Codewords, weight: float, along: Subvectors | None = None
) -> Codewords:
    """Refine the codewords of plain k-means to reduce the weighted error of these rows."""
    for _ in range(ROUNDS if weight else 0):
        codes = encode(rows, words, weight, along)
        words = _refitted(rows, rows if along is None else along, words, codes, weight)
    return words


def decode(codes: Codes, words: Codewords) -> Subvectors:
    """Decode to rows (n, subspaces, width)."""
    return np.asarray(words[np.arange(len(words)), codes])


def subvectors(X: Matrix, subspaces: int) -> Subvectors:
    """Split rows (n, k) into subspaces of equal width."""
    return X.reshape(len(X), subspaces, -1)


def _products(rows: Subvectors, words: Codewords) -> NDArray[np.float32]:
    """Inner products of subvectors and codewords: (subspaces, n, codewords)."""
    return np.asarray(product(rows.transpose(1, 0, 2), words.transpose(0, 2, 1)))


def _recoded(
    products: NDArray[np.float32],
    taken: NDArray[np.float32],
    lengths: NDArray[np.float32],
    codes: Codes,
    weight: float,
) -> Codes:
    """Improve codes by coordinate descent, from products of shape (subspaces, n, codewords).

    ``left`` is the parallel part that the other subspaces leave: 1 minus their share.
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


def _refitted(
    rows: Subvectors, along: Subvectors, words: Codewords, codes: Codes, weight: float
) -> Codewords:
    """Solve for the codewords of least weighted error, by subspace; unused ones are kept."""
    words = words.copy()
    left = 1 - np.vecdot(along, decode(codes, words)).sum(axis=1)
    for subspace, its in enumerate(words):
        chosen = codes[:, subspace]
        left += np.vecdot(along[:, subspace], its[chosen])
        for word in np.unique(chosen):
            mine = chosen == word
            x, u = rows[mine, subspace].astype(np.float64), along[mine, subspace].astype(np.float64)
            matrix = len(x) * np.eye(words.shape[2]) + weight * u.T @ u
            its[word] = np.linalg.solve(matrix, x.sum(axis=0) + weight * u.T @ left[mine])
        left -= np.vecdot(along[:, subspace], its[chosen])
    return words
