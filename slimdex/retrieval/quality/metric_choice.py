"""Metric choice: the (beta, gamma) in which an encoder's vectors are compared.

For an encoder trained to compare sentences, the default is kept unless labels favour another
cell: nothing computed without labels predicted reliably which one is better. A raw encoder (a
language model's hidden states) all but fails to find documents by their own rarest words, and finds
them several times as well in another cell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product

import numpy as np

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
from .cross_fitting import Gain, best_option, gain_bound, gain_of_best
from .labels import LabelledQuery, UserQueries, labelled_queries, ndcg
from .query_pools import draw_pairs, encode_with_progress
from .recall_trials import ERROR

Cell = tuple[float, float]
"""(beta, gamma)."""
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)
CELLS: tuple[Cell, ...] = tuple(product(STEPS, STEPS))
DEFAULT: Cell = (Choices.beta, Choices.gamma)
CELLS_DEFAULT_FIRST = (DEFAULT, *(cell for cell in CELLS if cell != DEFAULT))

HIGH_COSINE = 0.8
"""Mean cosine of random documents from which other cells are compared. It proves nothing: raw
encoders have .88 to .99, but tuned ones up to .9 on documents of one field."""
PAIRS = 2000
LEAST_TIMES = 3.0
"""Least mean reciprocal rank by keywords, in the default's, that proves an encoder to be raw: raw
ones had 2 to 15 times the default's, half of them more than 4.8, and tuned ones at most 1.6."""
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
    encoder = index.encoder_if_any
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
    cell, times, bound = by_keywords(snapshot.moments(), vectors, queries, targets)
    if bound <= 0:
        return Choice(DEFAULT, f"{_name(DEFAULT)}, the default: no other is clearly better")
    finds = f"documents' own keywords find them {times:.1f} times as well"
    return Choice(cell, f"{_name(cell)}: the encoder is raw ({finds})")


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
    gain = by_labels(
        moments=snapshot.moments(),
        X=snapshot.index.vectors.take(rows),
        queries=encode_with_progress(encoder, [query.text for query in judged]),
        labels=labels,
        self_rows=np.array([position.get(row, -1) for row in self_rows.tolist()]),
    )
    by = f"{len(judged):,} queries with labels"
    if not gain.is_proved:
        return Choice(DEFAULT, f"{_name(DEFAULT)}, the default: {by} show no clear gain")
    cell = CELLS_DEFAULT_FIRST[gain.option]
    return Choice(cell, f"{_name(cell)}: {by} gain {100 * gain.mean:.1f} nDCG@10")


def _name(cell: Cell) -> str:
    return f"beta={cell[0]:g}, gamma={cell[1]:g}"


def mean_cosine(vectors: VectorFile, live: Rows, rng: np.random.Generator) -> float:
    """Estimate the mean cosine of two different documents, by random pairs."""
    pairs = draw_pairs(live, PAIRS, rng)
    first_rows = normalize_rows(vectors.take(pairs[:, 0]))
    second_rows = normalize_rows(vectors.take(pairs[:, 1]))
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


def by_keywords(
    moments: Moments, X: Matrix, queries: Matrix, targets: Rows
) -> tuple[Cell, float, float]:
    """Compare cells by the reciprocal ranks at which queries of keywords find their documents.

    `X` (n, d) are the documents' vectors, `queries` (q, d) those of the queries, and `targets` (q,)
    the rows of `X` that these should find.

    Returns the best cell; its mean reciprocal rank as a multiple of the default's; and a lower
    bound of its gain over `LEAST_TIMES` the default's, the lower end of a two-sided interval that
    holds for all cells at once (Bonferroni).
    """

    columns = []
    for scores in _scores_by_cell(moments, X, queries):
        target_scores = np.take_along_axis(scores, targets[:, None], axis=1)
        columns.append(1 / (1 + (scores > target_scores).sum(axis=1)))
    measured = np.stack(columns, axis=1)
    option = best_option(measured)
    best = measured[:, option]
    default = measured[:, 0]
    times = float(best.mean()) / (float(default.mean()) or 1e-9)
    bound = gain_bound(best - LEAST_TIMES * default, ERROR / 2 / (len(CELLS) - 1))
    return CELLS_DEFAULT_FIRST[option], times, bound


def by_labels(
    moments: Moments,
    X: Matrix,
    queries: Matrix,
    labels: Sequence[Mapping[int, int]],
    self_rows: Rows,
) -> Gain:
    """Choose among `CELLS_DEFAULT_FIRST` by nDCG@10 of the queries, which are in random order.

    Labels are row of `X` -> relevance, for each query; `self_rows` (q,) are the rows of `X` that
    are the queries themselves, -1 for none.
    """
    has_self = self_rows >= 0
    columns = []
    for scores in _scores_by_cell(moments, X, queries):
        # A query's own document does not count as an answer.
        scores[np.flatnonzero(has_self), self_rows[has_self]] = -np.inf
        _, rows = top_k(scores, np.arange(len(X)), 10)
        answers = zip(rows.tolist(), labels, strict=True)
        columns.append([ndcg(ranked, relevances) for ranked, relevances in answers])
    return gain_of_best(np.array(columns).T)


def _scores_by_cell(moments: Moments, X: Matrix, queries: Matrix) -> Iterator[Matrix]:
    """Yield the scores (q, n) of all documents in each cell (beta, gamma), the default first."""
    for done, cell in enumerate(CELLS_DEFAULT_FIRST, start=1):
        rescorer = Rescorer.fit(moments, *cell)
        yield rescorer.probes(queries).scores(X, rescorer.norms(X))
        progress("comparing metrics", done, len(CELLS))
