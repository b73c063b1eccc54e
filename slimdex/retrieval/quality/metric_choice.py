"""Metric choice: the (beta, gamma) in which an encoder's vectors are compared.

For an encoder trained to compare sentences, the default is kept unless labels favour another
cell: nothing computed without labels predicted reliably which one is better. A raw encoder (a
language model's hidden states) all but fails to find documents by their own rarest words, and finds
them several times as well in another cell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, normalize_rows
from slimdex.indexes.options import Choices
from slimdex.indexes.ranking import top_k
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.progress import progress

from ..encoders.base import Encoder
from ..index import Index
from ..store.snapshot import Snapshot
from .cross_fitting import HALVES_ERROR, best_option, cross_fitted, gain_bound
from .labels import LabelledQuery, UserQueries, labelled_queries, ndcg
from .query_pools import encode_with_progress
from .recall_trials import ERROR

Cell = tuple[float, float]
"""(beta, gamma)."""
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)
CELLS: tuple[Cell, ...] = tuple(product(STEPS, STEPS))
DEFAULT: Cell = (Choices.beta, Choices.gamma)
_DEFAULT_FIRST = (DEFAULT, *(cell for cell in CELLS if cell != DEFAULT))

HIGH_COSINE = 0.8
"""Mean cosine of random documents from which other cells are compared. It proves nothing: raw
encoders have .88 to .99, but tuned ones up to .9 on documents of one field."""
PAIRS = 2000
LEAST_TIMES = 3.0
"""Least mean reciprocal rank by keywords, in the default's, that proves an encoder to be raw: raw
ones had 2 to 15 times the default's, half of them more than 4.8, and tuned ones at most 1.6."""
LEAST_GAIN = 0.1
"""Least gain of mean reciprocal rank by keywords that is worth advice."""
KEYWORDS = 4
KEYWORD_QUERIES = 500
COMPARED_ON = 10_000
"""Largest sample of documents to compare cells on, including all with labels."""
FEWEST_LABELLED = 100
"""Fewest labelled queries to change the default."""


@dataclass(frozen=True)
class Choice:
    """A cell, the reason for it, and advice to a user who did not ask for a choice."""

    cell: Cell
    why: str
    advice: str = ""


@dataclass(frozen=True)
class Comparison:
    """The best cell (beta, gamma), and measures (q,) of queries by a chosen cell and the default.

    `error` is that of `gain_bound`.
    """

    cell: Cell
    best: NDArray[np.float64]
    default: NDArray[np.float64]
    error: float

    @property
    def gain(self) -> float:
        """Mean gain over the default."""
        return float((self.best - self.default).mean())

    @property
    def times(self) -> float:
        """The mean measure, as a multiple of the default's."""
        default = float(self.default.mean())
        return float(self.best.mean()) / default if default else np.inf

    def bound(self, times: float = 1.0) -> float:
        """Lower bound of the mean gain over `times` the default's measure."""
        return gain_bound(self.best - times * self.default, self.error)


def choose_metric(
    index: Index,
    snapshot: Snapshot,
    user_queries: UserQueries | None = None,
    rng: np.random.Generator | None = None,
) -> Choice:
    """Choose (beta, gamma): by labels if there are enough, otherwise by whether the encoder is raw.

    Without enough labels, all but raw encoders get the default.
    """
    rng = rng or np.random.default_rng(0)
    encoder = index.query_encoder
    live = snapshot.searchable_rows()
    sample = np.sort(rng.choice(live, min(len(live), COMPARED_ON), replace=False))

    # By labels, if there are enough.
    if user_queries is not None and user_queries.labels and encoder is not None:
        judged = labelled_queries(snapshot, user_queries)
        if len(judged) >= FEWEST_LABELLED:
            order = rng.permutation(len(judged)).tolist()
            return _choose_by_labels(snapshot, encoder, sample, [judged[i] for i in order])

    # By keywords, if the encoder's vectors lie close together.
    default = f"{_name(DEFAULT)}, the default"
    if encoder is None:
        return Choice(DEFAULT, f"{default}: given vectors have no texts to compare metrics with")
    cosine = mean_cosine(snapshot.index.vectors, live, rng)
    if cosine <= HIGH_COSINE:
        return Choice(DEFAULT, f"{default}: the encoder is tuned (mean cosine {cosine:.2f})")
    return _choose_by_keywords(snapshot, encoder, sample, rng)


def _choose_by_keywords(
    snapshot: Snapshot, encoder: Encoder, sample: Rows, rng: np.random.Generator
) -> Choice:
    """Choose a cell by how well keywords find their documents.

    Returns the default unless another cell is clearly better. `sample` are the rows to search.
    """
    # Make a query of each document's keywords, which should find the document.
    words = keywords(snapshot.texts(sample))
    drawn = rng.choice(len(sample), min(KEYWORD_QUERIES, len(sample)), replace=False)
    targets = np.array([target for target in drawn.tolist() if words[target]], dtype=np.int64)
    queries = encode_with_progress(encoder, [words[target] for target in targets.tolist()])
    vectors = snapshot.index.vectors.take(sample)
    comparison = by_keywords(snapshot.moments(), vectors, queries, targets)

    finds = f"documents' own keywords find them {comparison.times:.1f} times as well"
    if comparison.bound(LEAST_TIMES) > 0:
        return Choice(comparison.cell, f"{_name(comparison.cell)}: the encoder is raw ({finds})")
    default = f"{_name(DEFAULT)}, the default"
    if comparison.gain < LEAST_GAIN or comparison.bound() <= 0:
        return Choice(DEFAULT, f"{default}: no other is clearly better")
    return Choice(
        DEFAULT,
        f"{default}: {finds} by {_name(comparison.cell)}, which does not prove that answers gain",
        f"advice: {_name(comparison.cell)} may suit this encoder ({finds}); `slimdex tune` with "
        f"{FEWEST_LABELLED} labelled queries can tell",
    )


def _choose_by_labels(
    snapshot: Snapshot, encoder: Encoder, sample: Rows, judged: Sequence[LabelledQuery]
) -> Choice:
    """Choose a cell by nDCG@10; the default unless another is significantly better.

    `sample` are the rows to search, besides the labelled ones; the queries are in random order.
    """
    # The sample, and the labelled documents that the index has.
    labelled = np.array([*chain.from_iterable(query.labels for query in judged)], np.int64)
    self_rows = np.array([query.self_row for query in judged])
    wanted = np.union1d(labelled, self_rows)
    rows = np.union1d(sample, wanted[wanted >= 0])

    # Labels by positions in `rows`. Documents that the index lacks keep their negative numbers:
    # no search can find them, but they count in nDCG.
    position = {row: i for i, row in enumerate(rows.tolist())}
    labels = []
    for query in judged:
        labels.append({position.get(row, row): value for row, value in query.labels.items()})
    comparison = by_labels(
        moments=snapshot.moments(),
        X=snapshot.index.vectors.take(rows),
        queries=encode_with_progress(encoder, [query.text for query in judged]),
        labels=labels,
        self_rows=np.array([position.get(row, -1) for row in self_rows.tolist()]),
    )
    by = f"{len(judged):,} queries with labels"
    cell = comparison.cell
    if cell != DEFAULT and comparison.bound() > 0:
        return Choice(cell, f"{_name(cell)}: {by} gain {100 * comparison.gain:.1f} nDCG@10")
    return Choice(DEFAULT, f"{_name(DEFAULT)}, the default: {by} show no clear gain")


def _name(cell: Cell) -> str:
    return f"beta={cell[0]:g}, gamma={cell[1]:g}"


def mean_cosine(vectors: VectorFile, live: Rows, rng: np.random.Generator) -> float:
    """Estimate the mean cosine of two different documents, by random pairs."""
    first = rng.integers(len(live), size=PAIRS)
    # 1 to n - 1 rows further on, so never the same row.
    second = (first + rng.integers(1, len(live), size=PAIRS)) % len(live)
    first_rows = normalize_rows(vectors.take(live[first]))
    second_rows = normalize_rows(vectors.take(live[second]))
    return float(np.vecdot(first_rows, second_rows).mean())


def keywords(texts: Sequence[str]) -> list[str]:
    """Return the words of each text that occur in the fewest texts, in the text's order.

    They are joined by spaces, `KEYWORDS` at most; "" for a text without words.

    >>> keywords(["the cat sat on the mat with the old dog", "the dog on the mat sat", "the old"])
    ['cat sat on with', 'dog on mat sat', 'the old']
    """
    words = [re.findall(r"\w+", text.lower()) for text in texts]
    frequency = Counter(chain.from_iterable(map(set, words)))
    out = []
    for text_words in words:
        distinct = list(dict.fromkeys(text_words))
        rarest = sorted(distinct, key=lambda word: frequency[word])[:KEYWORDS]
        out.append(" ".join(word for word in distinct if word in rarest))
    return out


def by_keywords(moments: Moments, X: Matrix, queries: Matrix, targets: Rows) -> Comparison:
    """Compare cells by the reciprocal ranks at which queries of keywords find their documents.

    `X` (n, d) are the documents' vectors, `queries` (q, d) those of the queries, and `targets` (q,)
    the rows of `X` that these should find. Bounds are the lower ends of two-sided intervals,
    simultaneous for all cells (Bonferroni).
    """

    def reciprocal_ranks(scores: Matrix) -> NDArray[np.float64]:
        target_scores = np.take_along_axis(scores, targets[:, None], axis=1)
        return np.asarray(1 / (1 + (scores > target_scores).sum(axis=1)))

    measured = _measure_cells(moments, X, queries, reciprocal_ranks)
    best = best_option(measured)
    return Comparison(
        cell=_DEFAULT_FIRST[best],
        best=measured[:, best],
        default=measured[:, 0],
        error=ERROR / 2 / (len(CELLS) - 1),
    )


def by_labels(
    moments: Moments,
    X: Matrix,
    queries: Matrix,
    labels: Sequence[Mapping[int, int]],
    self_rows: Rows,
) -> Comparison:
    """Compare cells by nDCG@10; bounds are one-sided.

    Each half of the queries, which are in random order, is measured in the cell that is best for
    the other half: see `cross_fitting`.

    Labels are row of `X` -> relevance, for each query; `self_rows` (q,) are the rows of `X` that
    are the queries themselves, -1 for none.
    """

    def ndcgs(scores: Matrix) -> NDArray[np.float64]:
        # A query's own document does not count as an answer.
        has_self = self_rows >= 0
        scores[np.flatnonzero(has_self), self_rows[has_self]] = -np.inf
        _, rows = top_k(scores, np.arange(len(X)), 10)
        answers = zip(rows.tolist(), labels, strict=True)
        return np.array([ndcg(ranked, relevances) for ranked, relevances in answers])

    measured = _measure_cells(moments, X, queries, ndcgs)
    return Comparison(
        cell=_DEFAULT_FIRST[best_option(measured)],
        best=cross_fitted(measured),
        default=measured[:, 0],
        error=HALVES_ERROR,
    )


def _measure_cells(
    moments: Moments,
    X: Matrix,
    queries: Matrix,
    measure: Callable[[Matrix], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Return a measure (q, cells) of each query in each cell (beta, gamma), the default first.

    `measure` computes it (q,) from the scores (q, n) of all documents.
    """
    columns = []
    for done, cell in enumerate(_DEFAULT_FIRST, start=1):
        rescorer = Rescorer.fit(moments, *cell)
        columns.append(measure(rescorer.probes(queries).scores(X, rescorer.norms(X))))
        progress("comparing metrics", done, len(CELLS))
    return np.stack(columns, axis=1)
