"""Placing: vectors to points of a plane, and regions of these with names.

Points are placed by PaCMAP (Wang, Huang, Rudin and Shaposhnik 2021). A region is named by the terms
that set its texts apart, by c-TF-IDF. A term's weight is its share of the region's words, times
``log(1 + (A - f + .5) / (f + .5))`` with f its number in all texts and A the mean number of words
of a region, and 0 if that is negative (Grootendorst 2022, in the variant with BM25's weights).
Words are those of the lexical index, by their stems.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.codes.faiss_index import FaissIndex, clusters
from slimdex.indexes.codes.kinds import FLAT

from ..lexical.tokens import stemmer, words_of

AXES = 96
"""Coordinates that are compared: the first ones, which have most of the variance if whitened."""
NEIGHBOURS = 10
"""Nearest rows that each is drawn to."""
FEWEST_PLACED = 20
"""Rows below which PaCMAP finds too few pairs; they are shown by two coordinates."""
SEED = 0
NAME_TERMS = 3
"""Terms of a name."""
READ_CHARACTERS = 2000
"""Characters of a text that are read."""
DISTINCT = 2.0
"""Share in the cluster, in units of that in all texts, that a term needs; common words have 1."""
_TERM = re.compile(r"[^\W\d_]{2,}")


def place(X: Matrix) -> Matrix:
    """Place unit rows (n, k) on a plane (n, 2), from 0 to 1, keeping near rows together.

    The same rows get the same places.
    """
    if len(X) < FEWEST_PLACED:
        plane = np.zeros((len(X), 2), dtype=np.float32)
        plane[:, : X.shape[1]] = X[:, :2]
    else:
        import pacmap  # of the extra `map`; loads numba

        logging.getLogger(pacmap.__name__).setLevel(logging.ERROR)  # it warns of a fixed seed
        neighbours = min(NEIGHBOURS, len(X) // 5)
        model = pacmap.PaCMAP(
            n_neighbors=neighbours,
            pair_neighbors=_pairs(X, neighbours),
            apply_pca=False,
            random_state=SEED,
        )
        plane = model.fit_transform(X)

    # Scale both axes alike, without dividing by zero if all points are equal.
    low = plane.min(axis=0)
    high = plane.max(axis=0)
    places: Matrix = (plane - low) / max(float((high - low).max()), 1e-9)
    return places.astype(np.float32)


def regions_of(places: Matrix, count: int) -> Rows:
    """Region of each place (n, 2) by k-means, the region with most places first.

    Clusters of the vectors themselves would lie scattered over the map.
    """
    cluster_of_place = clusters(places, count, SEED)
    largest_first = np.argsort(-np.bincount(cluster_of_place, minlength=count), kind="stable")
    rank_of_cluster = np.argsort(largest_first)
    regions: Rows = rank_of_cluster[cluster_of_place]
    return regions


def _pairs(X: Matrix, neighbours: int) -> Rows:
    """Pairs (n * neighbours, 2) of each row and one of its nearest rows.

    They are found by exact search: PaCMAP's own is slow, as a seed limits it to one thread.
    """
    index = FaissIndex(FLAT, X.shape[1])
    index.add(X)
    _, neighbour_rows = index.search(X, neighbours + 1)

    # Leave out the row itself, wherever it is in the list; if it is missing, the last one.
    rows = np.arange(len(X))
    order = np.argsort(neighbour_rows == rows[:, None], axis=1, kind="stable")[:, :neighbours]
    nearest = np.take_along_axis(neighbour_rows, order, axis=1)
    return np.stack([np.repeat(rows, neighbours), nearest.ravel()], axis=1).astype(np.int32)


def names_of_clusters(texts: Iterable[str], clusters: Rows) -> list[str]:
    """Name the clusters 0, 1, ... by the texts of each; `clusters` has the cluster of each text.

    >>> texts = ["the cat sat", "the cats ran", "the stocks fell", "a stock fell"]
    >>> names_of_clusters(texts, np.array([0, 0, 1, 1]))
    ['cat, sat, ran', 'stocks, fell, the']
    """
    # Count the texts of each cluster in which a word occurs.
    counts = [Counter[str]() for _ in range(int(clusters.max(initial=-1)) + 1)]
    for text, cluster in zip(texts, clusters.tolist(), strict=True):
        text_words = dict.fromkeys(words_of(text[:READ_CHARACTERS]))
        counts[cluster].update(word for word in text_words if _TERM.fullmatch(word))

    # Words of one stem count together.
    words = dict.fromkeys(chain.from_iterable(counts))
    stems = dict(zip(words, stemmer().analyze(" ".join(words)), strict=True))
    ranked = _rank_stems(counts, stems)
    names = []
    for terms, word_counts in zip(ranked, counts, strict=True):
        names.append(_join_terms(terms, word_counts, stems))
    return names


def _rank_stems(counts: Sequence[Counter[str]], stems: dict[str, str]) -> list[list[str]]:
    """Return the stems of each cluster, the most distinctive first.

    `counts` has the words of each cluster, and `stems` the stem of each word.
    """
    stems_of_clusters = []
    for words in counts:
        terms = Counter[str]()
        for word, count in words.items():
            terms[stems[word]] += count
        stems_of_clusters.append(terms)

    # Weigh by c-TF-IDF, see above; stems that are more frequent than elsewhere come first.
    total = sum(stems_of_clusters, Counter[str]())
    total_size = max(total.total(), 1)
    mean = total_size / max(len(stems_of_clusters), 1)
    ranked = []
    for terms in stems_of_clusters:
        size = max(terms.total(), 1)
        weights = {}
        for term, count in terms.items():
            weight = np.log(max(1 + (mean - total[term] + 0.5) / (total[term] + 0.5), 1))
            lift = count / size * total_size / total[term]
            is_distinct = lift >= DISTINCT or len(stems_of_clusters) == 1
            weights[term] = (is_distinct, count / size * weight, count)
        ranked.append(sorted(weights, key=lambda term: weights[term], reverse=True))
    return ranked


def _join_terms(terms: Sequence[str], words: Counter[str], stems: dict[str, str]) -> str:
    """Join the first stems to a name, each as its most frequent word."""
    usual_word = dict[str, str]()
    for word, _ in words.most_common():
        usual_word.setdefault(stems[word], word)
    return ", ".join(usual_word[term] for term in terms[:NAME_TERMS]) or "no words"
