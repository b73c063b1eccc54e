"""Ablation: search after each step from a vector to its code, to see which step loses accuracy.

All exact searches share one pass over the vectors, a block at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import LARGEST, Matrix, Rows, as_matrix, batches, normalize_rows
from ..execution.progress import progress
from ..ranking import Best
from ..vectors.int8_rows import BLOCK, STEPS
from .reduced_index import NO_ROWS, ReducedIndex, reduced

SCORES_AT_ONCE = 1 << 22
"""Scores of one exact search held in memory: 16 MB, for any number of queries."""
LEAST_BLOCK = 64
"""Smallest number of rows in a block."""
FLOAT16_ANGLE = 2.0**-11
"""Upper bound, in radians, on the rotation of a row by rounding to float16: each number changes by
at most this fraction of itself, unless it is subnormal."""
FLOAT16_STEP = 2.0**-25
"""Largest rounding error of a subnormal float16."""

ENCODER = "float16"
"""Order by the encoder's vectors as stored on disk."""
WHITENED = "whitened"
"""Order by the rescoring metric, at full dimension."""
CUT = "cut to k"
"""Order by the reduced rows, uncompressed."""
CODES = "codes"
"""Order by the codes."""
INDEX = "index"
"""Order of a real search: the codes' candidates, rescored."""


class Found(NamedTuple):
    """Search results: scores and rows (q, k), best first, padded with -inf and -1."""

    scores: Matrix
    rows: Rows


def exact_orders(
    index: ReducedIndex, queries: Matrix, k: int, steps: Sequence[str], hidden: Rows = NO_ROWS
) -> dict[str, Found]:
    """Run several kinds of exact search in one pass over the vectors.

    Parameters
    ----------
    queries : (q, d), as encoded.
    steps : any of `ENCODER`, `WHITENED` (if the index rescores) and `CUT`.
    hidden : rows (n,), sorted, to exclude.
    """
    queries = as_matrix(queries, dim=index.vectors.dim, name="queries", largest=LARGEST)
    k = min(k, len(index))
    best = {step: Best(len(queries), k) for step in steps}
    unit = normalize_rows(queries)
    probes = index.metric.probes(queries) if index.metric else None
    short = reduced(index.reducer, queries) if CUT in best else None
    size = max(SCORES_AT_ONCE // max(len(queries), 1), LEAST_BLOCK)
    start = 0
    for chunk in index.vectors.scan(0, len(index)):
        for part in batches(len(chunk), size):
            rows = np.arange(start + part.start, start + part.stop)
            kept = ~np.isin(rows, hidden, assume_unique=True)
            rows, X = rows[kept], chunk[part][kept]
            if not len(rows):
                continue
            if ENCODER in best:
                best[ENCODER].update(unit @ normalize_rows(X).T, rows)
            if WHITENED in best:
                assert probes is not None
                assert index.metric is not None
                best[WHITENED].update(probes.scores(X, index.metric.norms.take(rows)), rows)
            if short is not None:
                best[CUT].update(short @ reduced(index.reducer, X).T, rows)
        start += len(chunk)
        progress("searching exactly", start, len(index))
    return {step: Found(each.scores, each.rows) for step, each in best.items()}


def search_each_step(
    index: ReducedIndex, queries: Matrix, k: int, hidden: Rows = NO_ROWS, *, deep: int = 0
) -> dict[str, Found]:
    """Search after every step, in order from the encoder's vectors to the index.

    The index rescores as many rows as for ten results, or k if that is more.

    Parameters
    ----------
    queries : (q, d), as encoded.
    hidden : rows (n,), sorted, to exclude.
    deep : number of results of the exact searches, if more than k.
    """
    steps = [ENCODER, WHITENED, CUT] if index.metric else [ENCODER, CUT]
    found = exact_orders(index, queries, max(k, deep), steps, hidden)
    found[CODES] = Found(*index.search(queries, k, exclude=hidden, candidates=0))
    if index.metric:
        found[INDEX] = Found(*index.search(queries, k, None, hidden, index.candidates))
    return found


def exact_step(index: ReducedIndex) -> str:
    """Exact search that an index approximates: `WHITENED`, or `CUT` without rescoring."""
    return WHITENED if index.metric else CUT


def float16_error(found: Found, lengths: NDArray[np.float32], dim: int) -> NDArray[np.float64]:
    """Bound the change of each result's cosine (q, k) that rounding its vector to float16 causes.

    Each number changes by at most 2^-11 of itself, or 2^-25 if it is subnormal. The vector
    therefore rotates by at most the arcsine of that, and no cosine changes by more.

    `lengths` (q, k) are the Euclidean norms of the results' vectors as stored on disk.
    """
    tiny = np.sqrt(dim) * FLOAT16_STEP / np.maximum(lengths, np.finfo(np.float32).tiny)
    reach = np.arcsin(np.minimum(FLOAT16_ANGLE + tiny, 1.0))
    return np.where(found.rows >= 0, reach, 0.0)


def int8_error(X: Matrix) -> NDArray[np.float64]:
    """Bound the change of cosines (n,) for rows (n, d) read from int8.

    A number changes by at most half a step; a step is 1/127 of its block's largest magnitude.
    """
    n, dim = X.shape
    blocks = -(-dim // BLOCK)
    padded = np.zeros((n, blocks * BLOCK))
    padded[:, :dim] = np.abs(X)
    halves = padded.reshape(n, blocks, BLOCK).max(axis=2) / STEPS / 2
    counts = np.minimum(BLOCK, dim - BLOCK * np.arange(blocks))
    off = np.sqrt((counts * halves**2).sum(axis=1))
    lengths = np.maximum(np.linalg.norm(X.astype(np.float64), axis=1), np.finfo(np.float32).tiny)
    reach: NDArray[np.float64] = np.arcsin(np.minimum(off / lengths, 1.0))
    return reach
