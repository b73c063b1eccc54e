"""Certificate: the proved agreement of an index with exact search, by settings and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Self

from slimdex.indexes.settings import Settings

SENTENCE = "holds if real queries are no harder than these"
"""What every bound is worth, and no more."""


@dataclass(frozen=True)
class Certificate:
    """A lower bound of the mean agreement@10 with exact search in the index's own metric.

    It is the share of the ten nearest that a search finds: what compression loses. How many of the
    relevant documents are found is another matter, which takes labels.

    Attributes
    ----------
    settings : those in force when it was measured; it says nothing of others.
    estimate : mean over the queries, 0 to 1.
    bound : the mean over all such queries is not below it, but with probability `error`.
    error : 0 to 1.
    pool : what the queries are, in words.
    queries : how many.
    rows : documents, or passages of them, that could be found when it was measured.
    target : the agreement that was asked for, None if none was.
    """

    settings: Settings
    estimate: float
    bound: float
    error: float
    pool: str
    queries: int
    rows: int
    target: float | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """From the catalog's JSON; raises `TypeError` or `ValueError` for what is none."""
        made = cls(**{**values, "settings": Settings(**values["settings"])})
        made._check()
        return made

    def said(self, settings: Settings | None, rows: int, noun: str = "documents") -> str | None:
        """It in words, for an index that has these settings and so many documents to find.

        Where texts are cut, the noun is passages: the ten nearest of these are found.

        None if it is of other settings.

        >>> proved = Certificate(Settings(), 0.9944, 0.9912, 0.05, "a log", 500, 1000, 0.99)
        >>> print(proved.said(Settings(), 1000))
        agreement@10 with exact search 0.9944, at least 0.9912 with 95% confidence, by 500 \
queries: a log; measured on all 1,000 documents; holds if real queries are no harder than these
        >>> "measured on 1,000 of 2,500" in (proved.said(Settings(), 2500) or "")
        True
        """
        if settings != self.settings:
            return None
        if rows == self.rows:
            measured = f"all {rows:,} {noun}"
        elif rows > self.rows:
            measured = f"{self.rows:,} of {rows:,} {noun}"
        else:
            measured = f"{self.rows:,} {noun}, of which {rows:,} are left"
        return (
            f"agreement@10 with exact search {self.estimate:.4f}, at least {self.bound:.4f} with "
            f"{100 * (1 - self.error):.4g}% confidence, by {self.queries:,} queries: {self.pool}; "
            f"measured on {measured}; {SENTENCE}"
        )

    def _check(self) -> None:
        numbers = {"estimate": self.estimate, "bound": self.bound, "error": self.error}
        if self.target is not None:
            numbers["target"] = self.target
        for name, value in numbers.items():
            if type(value) not in (int, float) or not isfinite(value) or not 0 <= value <= 1:
                raise ValueError(f"{name}={value!r} of a certificate; expected 0 to 1")
        for name, count in (("queries", self.queries), ("rows", self.rows)):
            if type(count) is not int or not 1 <= count < 1 << 62:
                raise ValueError(f"{name}={count!r} of a certificate; expected 1 or more")
        if not isinstance(self.pool, str):
            raise TypeError(f"pool={self.pool!r} of a certificate; expected a text")
