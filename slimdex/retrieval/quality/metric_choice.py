"""Metric choice: the (beta, gamma) in which an encoder's vectors are compared.

For an encoder trained to compare sentences, the default is kept unless labels favour another
cell: nothing computed without labels predicted reliably which one is better. A raw encoder (a
language model's hidden states) is recognised by its vectors, which all point in the same direction,
and by how much another cell helps to find a document by its rarest words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.options import Choices
from slimdex.indexes.ranking import top_k
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.vectors.vector_file import VectorFile

from ..encoders.base import Encoder
from ..index import Index
from ..store.snapshot import Snapshot
from .labels import Asked, Judged, labelled_queries, ndcg
from .query_pools import encoded
from .recall_trials import ERROR

Cell = tuple[float, float]
"""(beta, gamma)."""
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)
CELLS: tuple[Cell, ...] = tuple(product(STEPS, STEPS))
DEFAULT: Cell = (Choices.beta, Choices.gamma)

RAW_COSINE = 0.8
"""Mean cosine of random documents: raw encoders had .91 to .98, tuned ones .02 to .37, static ones
distilled from those .18 to .68, and of these not all gained (4.3 nDCG@10 more on ArguAna, 4.3 less
on Cranfield)."""
PAIRS = 2000
LEAST_GAIN = 0.1
"""Gain of mean reciprocal rank, by keywords: raw encoders gained .17 to .38, tuned ones .05 at
most."""
KEYWORDS = 4
KEYWORD_QUERIES = 500
COMPARED_ON = 10_000
"""Largest sample of documents to compare cells on, including all with labels."""
FEWEST_LABELLED = 100
"""Fewest labelled queries to change the default."""


@dataclass(frozen=True)
class Choice:
    """A cell, and the reason for it."""

    cell: Cell
    why: str


def chosen_metric(
    index: Index,
    snapshot: Snapshot,
    asked: Asked | None = None,
    rng: np.random.Generator | None = None,
) -> Choice:
    """Choose (beta, gamma): by enough labels, otherwise the default for all but raw encoders."""
    rng, encoder = rng or np.random.default_rng(0), index.query_encoder
    live = snapshot.searchable_rows()
    sample = np.sort(rng.choice(live, min(len(live), COMPARED_ON), replace=False))
    if asked is not None and asked.labels and encoder is not None:
        judged = labelled_queries(snapshot, asked)
        if len(judged) >= FEWEST_LABELLED:
            return _chosen_by_labels(snapshot, encoder, sample, judged)
    kept = f"{_name(DEFAULT)}, the default"
    if encoder is None:
        return Choice(DEFAULT, f"{kept}: given vectors have no texts to compare metrics with")
    vectors = snapshot.index.vectors
    cosine = mean_cosine(vectors, live, rng)
    if cosine <= RAW_COSINE:
        return Choice(DEFAULT, f"{kept}: the encoder is tuned (mean cosine {cosine:.2f})")
    words = keywords(snapshot.texts(sample))
    targets = rng.choice(len(sample), min(KEYWORD_QUERIES, len(sample)), replace=False)
    targets = np.array([target for target in targets.tolist() if words[target]])
    queries = encoded(encoder, [words[target] for target in targets.tolist()])
    cell, gain, low = by_keywords(snapshot.moments(), vectors.take(sample), queries, targets)
    if gain < LEAST_GAIN or low <= 0:
        return Choice(DEFAULT, f"{kept}: mean cosine {cosine:.2f}, but no other is clearly better")
    return Choice(
        cell,
        f"{_name(cell)}: the encoder is raw (mean cosine {cosine:.2f}), and keyword "
        f"queries gain {100 * gain:.0f} points of MRR over the default",
    )


def _chosen_by_labels(
    snapshot: Snapshot, encoder: Encoder, sample: Rows, judged: Sequence[Judged]
) -> Choice:
    wanted = np.array([row for query in judged for row in query.labels])
    own = np.array([query.own for query in judged])
    rows = np.union1d(sample, np.union1d(wanted, own[own >= 0]))
    place = {row: i for i, row in enumerate(rows.tolist())}
    cell, gain, low = by_labels(
        snapshot.moments(),
        snapshot.index.vectors.take(rows),
        encoded(encoder, [query.text for query in judged]),
        [{place[row]: relevance for row, relevance in q.labels.items()} for q in judged],
        np.array([place.get(row, -1) for row in own.tolist()]),
    )
    by = f"{len(judged):,} queries with labels"
    if cell != DEFAULT and low > 0:
        return Choice(cell, f"{_name(cell)}: {by} gain {100 * gain:.1f} nDCG@10")
    return Choice(DEFAULT, f"{_name(DEFAULT)}, the default: {by} show no clear gain")


def _name(cell: Cell) -> str:
    return f"beta={cell[0]:g}, gamma={cell[1]:g}"


def mean_cosine(vectors: VectorFile, live: Rows, rng: np.random.Generator) -> float:
    """Mean cosine of random pairs of documents."""
    first = rng.integers(len(live), size=PAIRS)
    second = (first + rng.integers(1, len(live), size=PAIRS)) % len(live)
    one, other = (normalize_rows(vectors.take(live[rows])) for rows in (first, second))
    return float(np.vecdot(one, other).mean())


def keywords(texts: Sequence[str]) -> list[str]:
    """The words of each text that are rarest in all texts, in the text's order; "" without words.

    >>> keywords(["the cat sat on the mat with the old dog", "the dog on the mat sat", "the old"])
    ['cat sat on with', 'dog on mat sat', 'the old']
    """
    words = [re.findall(r"\w+", text.lower()) for text in texts]
    frequency = Counter(word for each in words for word in set(each))
    out = []
    for each in words:
        own = list(dict.fromkeys(each))
        rarest = sorted(own, key=lambda word: frequency[word])[:KEYWORDS]
        out.append(" ".join(word for word in own if word in rarest))
    return out


def by_keywords(
    moments: Moments, X: Matrix, queries: Matrix, targets: Rows
) -> tuple[Cell, float, float]:
    """The cell that best finds documents by their keywords, its gain, and the gain's lower bound.

    Documents have the vectors `X` (n, d), queries of keywords (q, d) their `targets` (q,) in it.
    The gain is of mean reciprocal rank over the default's; the bound the lower end of its two-sided
    confidence interval, simultaneous for all cells (Bonferroni).
    """

    def reciprocal_ranks(scores: Matrix) -> NDArray[np.float64]:
        own = np.take_along_axis(scores, targets[:, None], axis=1)
        return np.asarray(1 / (1 + (scores > own).sum(axis=1)))

    error = ERROR / 2 / (len(CELLS) - 1)
    return _best(moments, X, queries, reciprocal_ranks, error)


def by_labels(
    moments: Moments, X: Matrix, queries: Matrix, labels: Sequence[Mapping[int, int]], own: Rows
) -> tuple[Cell, float, float]:
    """The best cell by nDCG@10, its gain, and the gain's one-sided lower bound.

    Labels are row of `X` -> relevance, for each query; `own` (q,) is the row of `X` that is the
    query itself, -1 for none.
    """

    def ndcgs(scores: Matrix) -> NDArray[np.float64]:
        scores[np.flatnonzero(own >= 0), own[own >= 0]] = -np.inf
        _, found = top_k(scores, np.arange(len(X)), 10)
        return np.array([ndcg(*each) for each in zip(found.tolist(), labels, strict=True)])

    return _best(moments, X, queries, ndcgs, ERROR)


def _best(
    moments: Moments,
    X: Matrix,
    queries: Matrix,
    measure: Callable[[Matrix], NDArray[np.float64]],
    error: float,
) -> tuple[Cell, float, float]:
    """The best cell by the mean of a measure of scores, its mean gain over the default, and the
    lower end of that, wrong with probability `error`."""
    measured = dict[Cell, NDArray[np.float64]]()
    for done, cell in enumerate(CELLS, start=1):
        rescorer = Rescorer.fit(moments, *cell)
        measured[cell] = measure(rescorer.probes(queries).scores(X, rescorer.norms(X)))
        progress("comparing metrics", done, len(CELLS))
    best = max(measured, key=lambda cell: (measured[cell].mean(), cell == DEFAULT))
    gains = measured[best] - measured[DEFAULT]
    width = float(gains.std(ddof=1)) / sqrt(len(gains)) if len(gains) > 1 else np.inf
    low = float(gains.mean()) - NormalDist().inv_cdf(1 - error) * width
    return best, float(gains.mean()), low
