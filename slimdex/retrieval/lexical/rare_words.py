"""Rare words of a query: codes and names, which an encoder can hardly read.

The number of an error, a part or a version says exactly which rows are meant, and a name that a
single row has nearly as much. So by rule, rows that have them gain on their cosines::

    bonus(row) = (1 - mean) * sum over its rare words of factor(word) * share(word)**2
    share(word) = idf(word) / sum of the idfs of the query's words that any row has

mean is the query's mean cosine with all rows. The share is near 1 if the query asks for the code,
in whatever words, and small if a long text mentions a year or an amount: there its square is next
to nothing, so that the rest of the text decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

CODE = re.compile(r"\d|[_.:@+]")
"""A word is a code if it has a digit, or a sign that joins the parts of a name. Hyphens and slashes
do not count: they also join words of prose."""
SHORTEST_CODE, SHORTEST_NAME = 3, 6
"""Characters of the shortest code, and of the shortest stem of a name."""
FEWEST_ROWS, SHARE_OF_ROWS, MOST_ROWS = 3, 1 / 500, 50
"""A code is rare if at most this share of all rows have it, within the limits."""
CODE_FACTOR, NAME_FACTOR = 12.0, 4.0
"""A code that is the whole query exceeds all other bonuses."""


def rare_words(
    counts: Mapping[str, int], idfs: Mapping[str, float], total: int
) -> dict[str, float]:
    """Bonuses of the rare words of a query, for a mean cosine of 0.

    Parameters
    ----------
    counts : rows that have each word of the query, of `total` rows.
    idfs : inverse document frequencies of the words that are searched.

    >>> rare_words({"e4217": 1, "pump": 8, "fix": 0}, {"e4217": 5, "pump": 3, "fix": 6}, 99)
    {'e4217': 4.6875}
    """
    matched = {word: idf for word, idf in idfs.items() if counts[word]}
    most = min(max(FEWEST_ROWS, SHARE_OF_ROWS * total), MOST_ROWS)
    factors = dict[str, float]()
    for word in matched:
        is_code = len(word) >= SHORTEST_CODE and CODE.search(word) is not None
        if is_code and counts[word] <= most:
            factors[word] = CODE_FACTOR
        elif not is_code and len(word) >= SHORTEST_NAME and counts[word] == 1:
            factors[word] = NAME_FACTOR
    whole = sum(matched.values())
    return {word: factor * (matched[word] / whole) ** 2 for word, factor in factors.items()}
