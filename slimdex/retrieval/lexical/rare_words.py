"""Rare words of a query: codes and names, which an encoder can hardly read.

The number of an error, a part or a version says exactly which rows are meant, and so does a name
that only one row has. So by rule, rows that have them gain on their cosines::

    bonus(row) = (1 - nearest) * FACTOR * own / whole * own / (own + rival)

nearest is the best cosine of the query: what a row means needs no rare word. own is the sum of the
idfs of the rare words that the row has, and whole that of all words of the query that any row has.
rival is the best BM25 score of a row without a rare word: what else the query may be about. The
product of the shares is near 1 if the query asks for the code, in whatever words. It is near 0 if a
long text mentions a year or a name, so that the rest of the text decides.

A word is what is written between spaces, and counts by the rarest of its terms: the parts of
``4.3.1`` add nothing to the whole. Two adjacent words that may be a name (`full_names`) count as
one if a single row has them so: ``Ada Lovelace`` is rare where neither word is. In scripts without
capitals any two words may be one, so their idf counts in full only if it is half of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .tokens import UNSPACED, forms_of, full_names, stemmer, words_in

CODE = re.compile(r"\d|[_.:@+]")
"""A word is a code if it has a digit, or a sign that joins the parts of a name. Hyphens and slashes
do not count: they also join words of prose."""
SHORTEST = 3
"""Characters of the shortest rare word."""
SHARE_OF_ROWS = 1 / 500
"""A code is rare if at most this share of all rows have it."""
FEWEST_ROWS = 3
MOST_ROWS = 50
"""Limits of the rows that may have a rare code."""
FACTOR = 16.0
"""A code or name that is the whole query exceeds all other bonuses."""


class RareWords(NamedTuple):
    """Codes and names of a query, if few rows have them.

    Attributes
    ----------
    idfs : inverse document frequency of each.
    whole : sum of the idfs of all words of the query that any row has.

    >>> counts = {"how": 30, "fix": 9, "e4217": 1, "pump": 8}
    >>> idfs = {"how": 1.0, "fix": 2.0, "e4217": 5.0, "pump": 2.0}
    >>> rare = RareWords.of("How to fix E4217, pump?", counts, idfs, 99)
    >>> rare
    RareWords(idfs={'e4217': 5.0}, whole=10.0)
    >>> rare.bonuses(np.array([5.0, 0.0]), np.array([6, 3], np.float32)).tolist()
    [5.0, 0.0]
    """

    idfs: Mapping[str, float]
    whole: float

    @classmethod
    def of(
        cls,
        text: str,
        counts: Mapping[str, int],
        idfs: Mapping[str, float],
        total: int,
        is_proper: Callable[[str], bool] = lambda _: False,
    ) -> RareWords:
        """Find the rare words of a query.

        Parameters
        ----------
        counts : rows that have each term of the query, of `total` rows.
        idfs : inverse document frequencies of the terms that are searched.
        is_proper : whether a row has a term with a capital.
        """
        # Terms that occur in some row, codes that are in few rows, and words that are in one.
        most = min(max(FEWEST_ROWS, SHARE_OF_ROWS * total), MOST_ROWS)
        matched = dict[str, float]()
        codes = set[str]()
        names = set[str]()
        for term, idf in idfs.items():
            if not counts[term]:
                continue
            matched[term] = idf
            if counts[term] <= most and (CODE.search(term) or UNSPACED.search(term)):
                codes.add(term)
            if counts[term] == 1:
                names.add(term)
        if not codes and not names:
            return cls({}, 0.0)

        # Only the rarest term of each word as written counts.
        words = _rarest_terms(text, matched)
        whole = sum(matched[term] for term in words)
        full = full_names(text)
        rare = dict[str, float]()
        for term, has_capital in words.items():
            is_name = term in names and (has_capital or is_proper(term))
            is_word = len(term) >= SHORTEST or (len(term) == 1 and UNSPACED.match(term))
            if is_word and (term in codes or is_name):
                # Two words may be a full name if the query asks for little else.
                share = min(2 * matched[term] / whole, 1) if term in full else 1
                rare[term] = matched[term] * share
        return cls(rare, whole)

    def bonuses(
        self, idf_sums: NDArray[np.float64], bm25: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Bonuses of rows (n,) if the nearest row's cosine is 0.

        Parameters
        ----------
        idf_sums : (n,), sum of the idfs of the rare words that each row has.
        bm25 : (n,), of the rows; above 0.
        """
        rival = float(bm25[idf_sums == 0].max(initial=0.0))
        return FACTOR * idf_sums / self.whole * idf_sums / (idf_sums + rival)


def _rarest_terms(text: str, idfs: Mapping[str, float]) -> dict[str, bool]:
    """The rarest searched term of each word as written, and whether the word has a capital.

    The first letter of a query is not a capital, since it may begin a sentence. Words without
    spaces between them, as in Chinese, are not told apart: each of their terms counts.

    >>> _rarest_terms("Ask Ada about v4.3.1", {"ask": 1.0, "ada": 3.0, "v4": 2.0, "v4.3.1": 3.0})
    {'ask': False, 'ada': True, 'v4.3.1': False}
    """
    # A full name stands for those of its parts that are more common.
    rarest = dict[str, bool]()
    least = dict[str, float]()  # idf of the name that each of its parts has at least, to count
    for pair in pairwise(text.split()):
        for name in full_names(" ".join(pair)):
            if name in idfs:
                rarest[name] = True
                least |= dict.fromkeys(map(str.lower, pair), idfs[name])

    # Split at spaces into runs. Stem all words in one call, then give each run its own stems.
    runs = f"{text[:1].lower()}{text[1:]}".split()
    words = [*map(words_in, runs)]
    stems = iter(stemmer().analyze(" ".join(words)))
    for run, its_words in zip(runs, words, strict=True):
        terms = [*islice(stems, len(its_words.split())), *forms_of(run)]
        terms = [
            term for term in dict.fromkeys(terms) if idfs.get(term, -1) >= least.get(run.lower(), 0)
        ]
        if terms and not UNSPACED.search(run):
            terms = [max(terms, key=lambda term: (idfs[term], len(term)))]
        for term in terms:
            rarest[term] = rarest.get(term, False) or run != run.lower()
    return rarest
