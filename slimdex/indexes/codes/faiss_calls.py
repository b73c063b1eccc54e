"""Calls to FAISS: threads, errors, and scores of results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import faiss
import numpy as np

from ..arrays import Matrix, Rows
from ..errors import InputError
from .kinds import PQ_MOST_ROWS

METRICS = (faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2)
SHORTER = np.float32(0.5)
"""Length at which rows compared by distance are stored; a power of two avoids rounding.

For a unit query q, ``5/4 - |q - x/2|^2`` is ``q.x + (1 - |x|^2) / 4``: a correction for rows that
codes shorten. At length 1 the factor would be 1/2, which suits highest scores near 1; 1/4 suits
highest scores near 1/2, as between questions and their answers.
"""
TINY = np.finfo(np.float32).tiny


@contextmanager
def limited_threads(rows: int) -> Iterator[None]:
    """Use one OpenMP thread for work on few rows.

    That is faster than waking other threads, and concurrent callers don't wait for each other's.
    """
    threads = faiss.omp_get_max_threads()
    if rows > PQ_MOST_ROWS or threads == 1:
        yield
        return
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


@contextmanager
def faiss_errors(what: str = "this kind of index") -> Iterator[None]:
    """Turn FAISS's errors into `InputError`: only FAISS knows what a factory string supports."""
    try:
        yield
    except RuntimeError as error:
        raise refused(what, error) from error


def refused(what: str, error: RuntimeError) -> InputError:
    """Create an `InputError` from an error of FAISS."""
    return InputError(f"{what}: FAISS says {reason(error)}; try another kind")


def clusters(X: Matrix, count: int, seed: int = 0) -> Rows:
    """Cluster rows (n, k) by k-means; returns each row's cluster (n,), from 0.

    >>> places = np.array([[0, 0], [9, 9], [0, 1], [9, 8]], dtype=np.float32)
    >>> one, other, *same = clusters(places, 2).tolist()
    >>> one != other, same == [one, other]
    (True, True)
    """
    means = faiss.Kmeans(X.shape[1], count, seed=seed, min_points_per_centroid=1)
    means.train(X)
    nearest: Rows = means.index.search(X, 1)[1][:, 0]
    return nearest


def as_cosines(index: Any, results: tuple[Matrix, Rows]) -> tuple[Matrix, Rows]:
    """Convert an index's results to cosines, with -inf where FAISS returned no row."""
    scores, rows = results
    if index.metric_type == faiss.METRIC_L2:
        scores = cosines(scores)
    if rows.size and rows[:, -1].min() < 0:
        scores[rows < 0] = -np.inf
    return scores, rows


def cosines(distances: Matrix) -> Matrix:
    """Estimate cosines of unit queries from squared distances: see `SHORTER`."""
    return 1 + SHORTER**2 - distances


def reason(error: Exception) -> str:
    """Return the last clause of a FAISS message, the part about the input."""
    return (str(error) or type(error).__name__).splitlines()[0].rsplit(": ", 1)[-1].strip()
