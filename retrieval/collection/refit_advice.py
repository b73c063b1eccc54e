"""Fit advice: when most documents came after the reducer was fitted, the user should know."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np

from slimdex.indexes.choices import AUTO
from slimdex.indexes.kinds import FLAT, by_size
from slimdex.indexes.linear import Linear
from slimdex.indexes.reduced_index import ReducedIndex, reduced
from slimdex.indexes.settings import Settings

OUTGROWN = 2
"""Times the documents that the reducer has seen: beyond, others may matter more to it."""
TIMED_ROWS = 4096
"""Rows that are coded to tell how long all of them would take."""
FIXED_S = 1.0
"""Seconds that a fit takes on the smallest index: eigenvectors, k-means, a commit's fsyncs."""


def fit_advice(
    path: Path, fitted: int, documents: int, index: ReducedIndex, noun: str = "documents"
) -> list[str]:
    """A line for the user if the documents have outgrown those that the reducer was fitted on.

    Parameters
    ----------
    fitted : documents that the reducer has seen.
    documents : those that have a vector now.
    noun : what they are: where texts are cut, passages.
    """
    if not is_outgrown(fitted, documents, index):
        return []
    return [
        f"fitted on {fitted:,} of {documents:,} {noun}; `slimdex reduce {path}` fits anew"
        f"{about(refit_seconds(index))}"
    ]


def is_outgrown(fitted: int, documents: int, index: ReducedIndex) -> bool:
    """Whether there are so many more documents than the reducer has seen that it may matter."""
    least = index.reducer.n_features  # fewer do not show in how many ways texts can differ
    return documents > max(OUTGROWN * fitted, least)


def about(seconds: float | None) -> str:
    """A time in brackets, to be put behind what takes it; nothing if it is not known.

    >>> about(39.6), about(0.2), about(None)
    (' (about 40 s)', ' (about 1 s)', '')
    """
    return "" if seconds is None else f" (about {max(1, round(seconds))} s)"


def refit_seconds(index: ReducedIndex) -> float | None:
    """What fitting anew takes, at least; None if there is no telling before."""
    seconds = coding_seconds(index)
    return None if seconds is None else FIXED_S + seconds


def kind_advice(
    path: Path, requested: Settings, kind: str, documents: int, noun: str = "documents"
) -> list[str]:
    """A line for the user if `auto` would choose another kind for so many documents."""
    better = by_size(documents).name
    if requested.kind != AUTO or kind == FLAT.name or kind == better:
        return []
    return [f"{documents:,} {noun}: kind {better}, from `slimdex reduce {path}`, is faster"]


def coding_seconds(index: ReducedIndex) -> float | None:
    """What fitting a linear reducer anew takes, nearly all of it coding, timed on some rows.

    None for reducers that are trained: there is no telling before.
    """
    rows = np.arange(min(len(index), TIMED_ROWS))
    if not isinstance(index.reducer, Linear) or not len(rows):
        return None
    start = perf_counter()
    vectors = index.vectors.take(rows)
    index.index.copy(empty=True).add(reduced(index.reducer, vectors))
    if index.metric is not None:
        index.metric.rescorer.norms(vectors)
    return (perf_counter() - start) * len(index) / len(rows)
