"""Suggestions for misspelt names in messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that a misspelt word most likely stands for, or None.

    Case is ignored, and so is the difference of "-" and "_".

    >>> nearest("gama", ["beta", "gamma"]), nearest("Top-K", ["top_k"]), nearest("x", ["limit"])
    ('gamma', 'top_k', None)
    """
    folded = dict[str, str]()
    for choice in choices:
        folded.setdefault(_folded(choice), choice)
    close = get_close_matches(_folded(word), folded, n=1, cutoff=0.7)
    return folded[close[0]] if close else None


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return a message's ending that names the nearest choice; "" if none is near.

    >>> did_you_mean("serach", ["add", "search"]), did_you_mean("xyz", ["add", "search"])
    ("; did you mean 'search'?", '')
    """
    near = nearest(word, choices)
    return "" if near is None else f"; did you mean {near!r}?"


def _folded(word: str) -> str:
    return word.casefold().replace("-", "_")
