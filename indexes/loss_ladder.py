"""Loss ladder: what each step from a vector to its code finds, so that it is seen where it is lost.

Every exact search is made in one pass over the vectors, a block at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arrays import LARGEST, Matrix, Rows, as_matrix, batches, normalize_rows
from .int8_rows import BLOCK, STEPS
from .progress import Progress, silent
from .ranking import Best
from .reduced_index import NO_ROWS, ReducedIndex, reduced

SCORES_AT_ONCE = 1 << 22
"""Scores of one exact search held at a time: 16 MB, however many queries there are."""
LEAST_BLOCK = 64
"""Rows of a block at least."""
FLOAT16_ANGLE = 2.0**-11
"""How far rounding to float16 turns a row at most, in radians: each number of it changes by at
most this part of itself, unless it is tiny."""
FLOAT16_STEP = 2.0**-25
"""And a tiny number by at most so much."""

ENCODER = "float16"
"""The encoder's own order, by the vectors as they lie on disk."""
WHITENED = "whitened"
"""The order of the rescoring metric, at full dimension."""
CUT = "cut to k"
"""The order of the reduced rows, uncompressed."""
CODES = "codes"
"""The order of the codes."""
INDEX = "index"
"""What a search gives: the codes' candidates in the rescoring metric's order."""


class Found(NamedTuple):
    """Answers: scores and rows (q, k), best first, padded with -inf and -1."""

    scores: Matrix
    rows: Rows


def exact_orders(
    index: ReducedIndex,
    queries: Matrix,
    k: int,
    steps: Sequence[str],
    hidden: Rows = NO_ROWS,
    progress: Progress = silent,
) -> dict[str, Found]:
    """Exact searches of several kinds in one pass over the vectors.

    Parameters
    ----------
    queries : (q, d), as they were encoded.
    steps : of `ENCODER`, `WHITENED` (for an index that rescores) and `CUT`.
    hidden : rows (n,), sorted, that are not found.
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


def ladder(
    index: ReducedIndex,
    queries: Matrix,
    k: int,
    hidden: Rows = NO_ROWS,
    progress: Progress = silent,
    *,
    deep: int = 0,
) -> dict[str, Found]:
    """What every step finds, from the encoder's vectors to the index, in that order.

    Parameters
    ----------
    queries : (q, d), as they were encoded.
    hidden : rows (n,), sorted, that no search finds.
    deep : how many the exact searches find, if more than k.
    """
    steps = [ENCODER, WHITENED, CUT] if index.metric else [ENCODER, CUT]
    found = exact_orders(index, queries, max(k, deep), steps, hidden, progress)
    found[CODES] = Found(*index.search(queries, k, exclude=hidden, candidates=0))
    if index.metric:
        found[INDEX] = Found(*index.search(queries, k, exclude=hidden))
    return found


def own_step(index: ReducedIndex) -> str:
    """The exact search that an index approximates: `WHITENED`, or `CUT` where none rescores."""
    return WHITENED if index.metric else CUT


def in_reach(found: Found, lengths: NDArray[np.float32], dim: int) -> NDArray[np.float64]:
    """How far the cosine of each answer (q, k) can be from that of the vector before float16.

    A number of the vector changes by at most 2^-11 of itself, or 2^-25 if it is tiny, so the
    vector turns by at most the angle whose sine is that, and its cosine with anything by no more.

    Parameters
    ----------
    lengths : (q, k), Euclidean, of the answers' vectors as they lie on disk.
    """
    tiny = np.sqrt(dim) * FLOAT16_STEP / np.maximum(lengths, np.finfo(np.float32).tiny)
    reach = np.arcsin(np.minimum(FLOAT16_ANGLE + tiny, 1.0))
    return np.where(found.rows >= 0, reach, 0.0)


def int8_reach(X: Matrix) -> NDArray[np.float64]:
    """The same (n,) for rows (n, d) read from int8: a number changes by half a step at most.

    A step is the largest magnitude of its block, which is 127 steps, by that.
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
