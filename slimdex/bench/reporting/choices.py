"""Choices among the rows of methods and peers, for tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from slimdex.indexes.options import CANDIDATES

from ..engines.registry import SLIMDEX, UNCOMPRESSED, part
from ..experiments.points_study import DEFAULTS
from ..rows import Row
from .table_columns import BY_TASK, group_rows, rows_where, values_of, without_errors

FASTEST_AT = 0.99
"""Agreement with exact search at which approximate indexes are compared."""


def by_size(rows: Iterable[Row]) -> list[Row]:
    """Sort rows by model, then by the size of the set."""
    return sorted(rows, key=lambda row: (row["model"], row["documents"], row["set"]))


def by_task(rows: Iterable[Row], *apart: str) -> dict[tuple[Any, ...], list[Row]]:
    """Group rows without an error by set, model and the columns `apart`; by model, then by size.

    >>> made = [{"set": name, "model": "m", "documents": n} for name, n in (("b", 9), ("a", 5))]
    >>> [*by_task(made)]
    [('a', 'm'), ('b', 'm')]
    """
    return group_rows(by_size(without_errors(rows)), *BY_TASK, *apart)


def most_compared(rows: Iterable[Row], *apart: str) -> list[Row]:
    """Return the group of `by_task` that compares the most methods."""
    groups = by_task(rows, *apart).values()
    return max(groups, key=lambda group: len(set(values_of(group, "method"))), default=[])


def _slimdex_row(rows: Sequence[Row], of: int, effort: Callable[[Row], int]) -> Row | None:
    """Return slimdex's row with k = d / of and `effort` candidates; None if there is none.

    The other settings are those of `DEFAULTS`.
    """
    usual = (DEFAULTS.beta, DEFAULTS.gamma, DEFAULTS.kind)
    for row in rows_where(rows, method=SLIMDEX):
        settings = (row.get("beta"), row.get("gamma"), row.get("kind"))
        if settings != usual:
            continue
        if row["k"] == part(row["dim"], of) and row["effort"] == effort(row):
            return row
    return None


def default_row(rows: Sequence[Row]) -> Row | None:
    """Return the row of slimdex as `slimdex build` makes it, at 1/64 of float32, or None."""
    return _slimdex_row(rows, 2, lambda _: CANDIDATES)


def small_row(rows: Sequence[Row]) -> Row | None:
    """Return the row of slimdex at 1/128 with 1% of the documents as candidates, or None."""
    return _slimdex_row(rows, 4, lambda row: max(int(row["documents"]) // 100, 10))


def exact_row(rows: Sequence[Row]) -> Row | None:
    """Return the row of exact float32 search, if there is one."""
    return next(iter(rows_where(rows, method=UNCOMPRESSED)), None)


def is_default(row: Row) -> bool:
    """Return whether a row of `bench search` is of the default index.

    Older rows, which have no `code_bytes`, were measured without words and passages.
    """
    return row["method"] == SLIMDEX and not row["effort"] and bool(row.get("code_bytes"))


def label(row: Row) -> str:
    """Describe a row's method in a few words.

    >>> label({"method": "slimdex", "k": 192, "kind": "pq", "effort": 200})
    'slimdex k=192 pq, 200 rescored'
    >>> label({"method": "hnswlib", "effort": 64})
    'hnswlib, effort 64'
    """
    if row.get("k") is None:
        return f"{row['method']}, effort {row['effort']}" if row["effort"] else str(row["method"])
    words = f"{row['method']} k={row['k']} {row['kind']}"
    return f"{words}, {row['effort']} rescored" if row["effort"] else words


def front(
    rows: Iterable[Row], size: str = "ram_row_bytes", quality: str = "ndcg@10_delta"
) -> list[Row]:
    """Return the rows that no smaller one beats in quality, from the smallest to the best.

    >>> sizes = {3: 0.9, 1: 0.8, 2: 0.7}
    >>> made = [{"bytes": size, "recall": recall} for size, recall in sizes.items()]
    >>> [row["bytes"] for row in front(made, "bytes", "recall")]
    [1, 3]
    """
    best: list[Row] = []
    for row in sorted(rows, key=lambda r: (r[size], -r[quality])):
        if not best or row[quality] > best[-1][quality]:
            best.append(row)
    return best


def fastest_at(rows: Sequence[Row], least: float = FASTEST_AT, by: str = "p50_ms_one") -> list[Row]:
    """Return the fastest row of each method that reaches the agreement `least`, fastest first.

    If no row of a method reaches it, the nearest one is returned. `by` is the column of the time.
    """

    def rank(row: Row) -> tuple[float, float]:
        missing_agreement = max(least - row["agreement@10"], 0.0)
        return missing_agreement, row[by]

    fastest = []
    for of_method in group_rows(without_errors(rows), "method").values():
        fastest.append(min(of_method, key=rank))
    return sorted(fastest, key=lambda row: row[by])
