"""Fit advice: a message if most documents were added after the reducer was fitted."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np

from slimdex.indexes.codes.kinds import FLAT, by_size
from slimdex.indexes.options import AUTO
from slimdex.indexes.reducers.linear import Linear
from slimdex.indexes.search.reduced_index import ReducedIndex, reduced
from slimdex.indexes.settings import Settings

OUTGROWN = 2
"""Factor by which the documents may outgrow those that the reducer was fitted on."""
TIMED_ROWS = 4096
"""Rows coded to estimate the time for all."""
FIXED_S = 1.0
"""Fixed time of a fit: eigenvectors, k-means, a commit's fsyncs."""


def fit_advice(
    path: Path, fitted: int, documents: int, index: ReducedIndex, noun: str = "documents"
) -> list[str]:
    """A message if the documents have outgrown those that the reducer was fitted on.

    Parameters
    ----------
    fitted : documents that the reducer was fitted on.
    documents : documents with a vector now.
    noun : "passages" if texts are cut.
    """
    if not is_outgrown(fitted, documents, index):
        return []
    return [
        f"fitted on {fitted:,} of {documents:,} {noun}; `slimdex reduce {path}` fits again"
        f"{about(refit_seconds(index))}"
    ]


def is_outgrown(fitted: int, documents: int, index: ReducedIndex) -> bool:
    """True if the reducer was fitted on so few of the documents that it may matter."""
    least = index.reducer.n_features  # fewer do not span the variety of texts
    return documents > max(OUTGROWN * fitted, least)


def about(seconds: float | None) -> str:
    """A time in brackets, to append to a message; empty if unknown.

    >>> about(39.6), about(0.2), about(None)
    (' (about 40 s)', ' (about 1 s)', '')
    """
    return "" if seconds is None else f" (about {max(1, round(seconds))} s)"


def refit_seconds(index: ReducedIndex) -> float | None:
    """Estimate the time of a new fit; None if unknown."""
    seconds = coding_seconds(index)
    return None if seconds is None else FIXED_S + seconds


def kind_advice(
    path: Path, requested: Settings, kind: str, documents: int, noun: str = "documents"
) -> list[str]:
    """A message if `auto` would choose another kind for this number of documents."""
    better = by_size(documents).name
    if requested.kind != AUTO or kind == FLAT.name or kind == better:
        return []
    return [f"{documents:,} {noun}: kind {better}, from `slimdex reduce {path}`, is faster"]


def coding_seconds(index: ReducedIndex) -> float | None:
    """Estimate the time of refitting a linear reducer by coding some rows.

    Coding takes nearly all of that time. None for trained reducers, which can't be estimated.
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
