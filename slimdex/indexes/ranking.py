"""Top-k selection of scores, padded with -inf and -1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from .arrays import Matrix, Rows, Scores

SORTED_AT_ONCE = 500
"""Largest number of scores that sorting handles faster than partitioning."""


def top_k(scores: Matrix, rows: Rows, k: int) -> tuple[Matrix, Rows]:
    """Select the k best scores (q, n) and their `rows` (n,), best first.

    Equal scores keep the order of `rows`.

    >>> top_k(np.array([[.1, .9, .5]], dtype=np.float32), np.array([4, 5, 6]), 2)[1].tolist()
    [[5, 6]]
    """
    k = min(k, scores.shape[1])
    best = np.empty((len(scores), k), dtype=np.int64)
    for positions, query_scores in zip(best, scores, strict=True):
        falling = -query_scores  # ascending order puts the best first
        if len(falling) > SORTED_AT_ONCE and 0 < k < len(falling):
            # Sort only scores no worse than the k-th best; with ties, they may be more than k.
            few = np.flatnonzero(falling <= np.partition(falling, k - 1)[k - 1])
            positions[:] = few[np.argsort(falling[few], kind="stable")[:k]]
        else:
            positions[:] = np.argsort(falling, kind="stable")[:k]
    return np.take_along_axis(scores, best, axis=1), rows[best]


def best_of(chunks: Iterable[tuple[Matrix, Rows]], queries: int, k: int) -> tuple[Matrix, Rows]:
    """Return the k best scores and rows (queries, k) of chunks, padded with -inf and -1.

    A chunk has scores (queries, n_i) and their rows (n_i,). Equal scores are in the order of chunks
    and rows.

    >>> chunks = [(np.array([[.1, .9]]), np.array([0, 1])), (np.array([[.5]]), np.array([2]))]
    >>> best_of(chunks, 1, 2)[1].tolist()
    [[1, 2]]
    """
    best: Matrix = np.full((queries, k), -np.inf, dtype=np.float32)
    best_rows: Rows = np.full((queries, k), -1, dtype=np.int64)
    for chunk in chunks:
        scores, rows = top_k(*chunk, k)
        both = np.hstack([best, scores])
        both_rows = np.hstack([best_rows, rows])
        order = np.argsort(-both, axis=1, kind="stable")[:, :k]
        best = np.take_along_axis(both, order, axis=1)
        best_rows = np.take_along_axis(both_rows, order, axis=1)
    return best, best_rows


def first_allowed(
    scores: Scores, rows: Rows, is_allowed: NDArray[np.bool_], k: int
) -> tuple[Scores, Rows]:
    """Return each query's first k allowed results of (q, n), padded with -inf and -1.

    >>> is_allowed = np.array([[False, True, True]])
    >>> first_allowed(np.array([[.3, .2, .1]]), np.array([[7, 8, 9]]), is_allowed, 4)[1].tolist()
    [[8, 9, -1, -1]]
    """
    out_scores = np.full((len(scores), k), -np.inf, dtype=scores.dtype)
    out_rows = np.full((len(scores), k), -1, dtype=np.int64)
    for i, mask in enumerate(is_allowed):
        first = np.flatnonzero(mask)[:k]
        out_scores[i, : len(first)] = scores[i, first]
        out_rows[i, : len(first)] = rows[i, first]
    return out_scores, out_rows


def agreement(approximate: Rows, exact: Rows, k: int) -> NDArray[np.float64]:
    """Share of the exact search's top k rows that are in the approximate top k, for each query.

    Both are rows (q, n), best first; -1 is no row. A query without exact rows has share 1.

    >>> agreement(np.array([[1, 2, 3]]), np.array([[3, 2, 9]]), 2).tolist()
    [0.5]
    """
    expected = exact[:, :k]
    is_row = expected >= 0
    counts = is_row.sum(axis=1)

    # Compare each expected row of a query with each of its approximate rows.
    is_match = expected[:, :, None] == approximate[:, None, :k]
    is_hit = is_match.any(axis=2) & is_row
    return np.where(counts > 0, is_hit.sum(axis=1) / np.maximum(counts, 1), 1.0)


def stack_results(results: Sequence[tuple[Scores, Rows]], k: int) -> tuple[Scores, Rows]:
    """Stack single queries' scores and rows (1, k or fewer) to (q, k), padded with -inf and -1."""
    if len(results) == 1 and results[0][1].shape[1] == k:
        return results[0]
    dtype = np.result_type(np.float32, *(scores for scores, _ in results))
    scores = np.full((len(results), k), -np.inf, dtype=dtype)
    rows: Rows = np.full((len(results), k), -1, dtype=np.int64)
    for i, (query_scores, query_rows) in enumerate(results):
        width = query_rows.shape[1]
        scores[i, :width] = query_scores[0]
        rows[i, :width] = query_rows[0]
    return scores, rows
