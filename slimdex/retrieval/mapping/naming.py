"""Naming: the terms that set a cluster's texts apart, by c-TF-IDF.

A term's weight in a cluster is its share of the cluster's words, times ``log(1 + (A - f + .5) /
(f + .5))`` with f its number in all texts and A the mean number of words of a cluster, and 0 if
that is negative (Grootendorst 2022, in the variant with BM25's weights). Words are those of the
lexical index, by their stems.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from slimdex.indexes.arrays import Rows

from ..lexical.tokens import stemmer, words_of

TERMS = 3
"""Terms of a name."""
READ = 2000
"""Characters of a text that are read."""
DISTINCT = 2.0
"""Share in the cluster, in units of that in all texts, that a term needs; common words have 1."""
_TERM = re.compile(r"[^\W\d_]{2,}")


def names_of_clusters(texts: Iterable[str], clusters: Rows) -> list[str]:
    """Name the clusters 0, 1, ... by the texts of each.

    >>> texts = ["the cat sat", "the cats ran", "the stocks fell", "a stock fell"]
    >>> names_of_clusters(texts, np.array([0, 0, 1, 1]))
    ['cat, sat, ran', 'stocks, fell, the']
    """
    counts = [Counter[str]() for _ in range(int(clusters.max(initial=-1)) + 1)]
    for text, cluster in zip(texts, clusters.tolist(), strict=True):
        words = dict.fromkeys(words_of(text[:READ]))
        counts[cluster].update(word for word in words if _TERM.fullmatch(word))
    stems = _stems(counts)
    return [_joined(ranked, counts[i], stems) for i, ranked in enumerate(_ranked(counts, stems))]


def _stems(counts: Sequence[Counter[str]]) -> dict[str, str]:
    """Stem of each word."""
    words = [*dict.fromkeys(word for each in counts for word in each)]
    return dict(zip(words, stemmer().analyze(" ".join(words)), strict=True))


def _ranked(counts: Sequence[Counter[str]], stems: dict[str, str]) -> list[list[str]]:
    """Stems of each cluster, the heaviest first."""
    own = [Counter[str]() for _ in counts]
    for terms, each in zip(own, counts, strict=True):
        for word, count in each.items():
            terms[stems[word]] += count
    total = sum(own, Counter[str]())
    every = max(total.total(), 1)
    mean = every / max(len(own), 1)
    ranked = []
    for terms in own:
        size = max(terms.total(), 1)
        weights = {}
        for term, count in terms.items():
            weight = np.log(max(1 + (mean - total[term] + 0.5) / (total[term] + 0.5), 1))
            lift = count / size * every / total[term]
            weights[term] = (lift >= DISTINCT or len(own) == 1, count / size * weight, count)
        ranked.append(sorted(weights, key=lambda term: weights[term], reverse=True))
    return ranked


def _joined(terms: Sequence[str], words: Counter[str], stems: dict[str, str]) -> str:
    """The first terms, each as the word that is used most often for it."""
    usual = dict[str, str]()
    for word, _ in words.most_common():
        usual.setdefault(stems[word], word)
    return ", ".join(usual[term] for term in terms[:TERMS]) or "no words"
