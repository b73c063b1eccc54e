"""Colouring: the columns of documents as a few values each, which a map colours by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

VALUES = 9
"""Most values of a column with a colour of their own."""
RANGES = 6
"""Ranges of a column with an order and more values."""
COLUMNS = 12
"""Most columns offered."""
LONGEST = 40
"""Characters of a value."""
OTHERS, NONE = "other values", "no value"


@dataclass(frozen=True)
class Colouring:
    """A column of documents.

    Attributes
    ----------
    labels : values, or ranges of them.
    codes : place in `labels` for each document.
    ordered : whether the labels have an order.
    """

    name: str
    labels: Sequence[str]
    codes: Sequence[int]
    ordered: bool = False


def colourings(rows: Sequence[Mapping[str, Any]]) -> list[Colouring]:
    """Columns whose values repeat, or have an order; the first `COLUMNS` of them.

    >>> rows = [{"kind": "a", "text": i, "n": i} for i in "xyz"] + [{"kind": "a"}]
    >>> [(each.name, each.labels, each.codes) for each in colourings(rows)]
    [('kind', ['a'], [0, 0, 0, 0])]
    """
    names = dict.fromkeys(name for row in rows for name in row)
    found = (_colouring(name, [row.get(name) for row in rows]) for name in names)
    return [each for each in found if each is not None][:COLUMNS]


def _colouring(name: str, values: Sequence[Any]) -> Colouring | None:
    there = [value for value in values if value is not None]
    counts = Counter(map(str, there))
    if len(counts) > VALUES and _has_order(there):
        return _in_ranges(name, values, sorted(there))
    if not there or 2 * len(counts) > len(there):
        return None
    labels = [value for value, _ in counts.most_common(VALUES)]
    if len(counts) > VALUES:
        labels.append(OTHERS)
    places = {label: i for i, label in enumerate(labels[:VALUES])}
    codes = [
        len(labels) if value is None else places.get(str(value), len(labels) - 1)
        for value in values
    ]
    return _labelled(name, labels, codes)


def _has_order(values: Sequence[Any]) -> bool:
    kinds = {type(value) for value in values}
    return kinds <= {int, float, Decimal} or kinds in ({date}, {datetime})


def _in_ranges(name: str, values: Sequence[Any], ordered: Sequence[Any]) -> Colouring:
    """Ranges with about equally many documents."""
    starts = [ordered[i * len(ordered) // RANGES] for i in range(RANGES)]
    starts = [*dict.fromkeys(starts)]
    codes = [
        len(starts) if value is None else sum(value >= start for start in starts) - 1
        for value in values
    ]
    labels = []
    for i, low in enumerate(starts):
        own = [value for value, code in zip(values, codes, strict=True) if code == i]
        high = max(own)
        labels.append(str(low) if low == high else f"{low} – {high}")
    return _labelled(name, labels, codes, ordered=True)


def _labelled(
    name: str, labels: list[str], codes: Sequence[int], ordered: bool = False
) -> Colouring:
    if max(codes) == len(labels):
        labels = [*labels, NONE]
    return Colouring(name, [label[:LONGEST] for label in labels], codes, ordered)
