"""Calls to FAISS: threads, errors, and scores of results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
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
FACTORY = re.compile(r"[A-Z][\w+.,()]{0,99}")
"""Form of a factory string. FAISS reads strings of strangers' manifests, too: short ones only."""
TINY = np.finfo(np.float32).tiny


LARGEST_TRIED = 4096
"""Largest number in a factory string that is tried: an index of it is still small."""


@cache
def is_factory(factory: str) -> bool:
    """Return whether FAISS reads a factory string, at some number of dimensions.

    Strings with large numbers, which might take much memory, are only compared with the form.

    >>> [is_factory(factory) for factory in ("PQ48x4fs", "OPQ16_64,IVF1000000,PQ16", "SQ4", "HNSW")]
    [True, True, True, True]
    >>> [is_factory(factory) for factory in ("pq4", "PQx", "Bogus", "SQ5", "", "PQ8 ")]
    [False, False, False, False, False, False]
    """
    if not FACTORY.fullmatch(factory):
        return False
    numbers = {int(digits) for digits in re.findall(r"\d+", factory)}
    if max(numbers, default=0) > LARGEST_TRIED:
        return True
    return any(_is_made(factory, dim) for dim in sorted({64, *numbers} - {0}))


def _is_made(factory: str, dim: int) -> bool:
    try:
        faiss.index_factory(dim, factory)
    except RuntimeError:
        return False
    return True


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
