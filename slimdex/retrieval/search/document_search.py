"""Document search: the nearest documents, each with its best passage.

The nearest rows may all belong to one document. So the search is repeated for more rows until it
has found enough documents or no rows are left. At least as many rows are rescored as requested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.ranking import compacted

from ..catalog.passages_table import DocumentRows
from ..documents import Document, Hit
from ..passages import headings_of, part_at

FIRST, MORE = 4, 4
"""Rows requested per document at first, and the factor of each repetition."""
Search = Callable[[NDArray[Any], int], tuple[Matrix, Rows]]
"""Queries and k -> scores and rows (q, k or fewer), best first, padded with -inf and -1."""


def nearest_documents(
    search: Search, queries: NDArray[Any], k: int, rows: DocumentRows, total: int, least: int = 0
) -> tuple[Matrix, Rows]:
    """Scores and rows (q, k or fewer) of the best passage of each of the k nearest documents.

    Parameters
    ----------
    queries : vectors (q, d), or numbers (q,) of queries that `search` has.
    rows : the documents of rows.
    total : number of rows, an upper limit of k.
    least : rows to request at first, if more than `FIRST` times k, as they are rescored anyway.
    """
    if rows.is_one_each:
        return search(queries, k)
    k = min(k, total)
    best = np.full((len(queries), k), -np.inf, dtype=np.float32)
    out: Rows = np.full((len(queries), k), -1, dtype=np.int64)
    ask, left = max(FIRST * k, least), np.arange(len(queries))
    while k and len(left):
        scores, found = search(queries[left], ask)
        is_best = best_of_documents(rows.documents(found))
        best[left], out[left] = compacted(scores, found, is_best, k)
        if found.shape[1] < ask or ask >= total:
            break  # no rows are left
        left = left[(is_best.sum(axis=1) < k) & (found[:, -1] >= 0)]
        ask *= MORE
    return best, out


def best_of_documents(documents: Rows) -> NDArray[np.bool_]:
    """Mark the first of each document among answers (q, n), best first; -1 is padding.

    >>> best_of_documents(np.array([[4, 7, 4, -1]])).tolist()
    [[True, True, False, False]]
    """
    first = np.zeros(documents.shape, dtype=bool)
    for own, each in zip(first, documents, strict=True):
        _, places = np.unique(each, return_index=True)
        own[places] = True
    return first & (documents >= 0)


def hit_of(document: Document, number: int, score: float, found_by: str = "meaning") -> Hit:
    """The hit of a document found by one of its passages, counted from 0.

    Raises `CorruptError` if the passage does not exist.
    """
    passages = document.passages or [(0, len(document.text))]
    if number >= len(passages):
        raise CorruptError(
            f"document {document.id!r}: {len(passages)} passages; expected {number + 1} or more"
        )
    start, end = passages[number]
    text = document.text[start:end]
    line = 1 + document.text.count("\n", 0, start) if start else 1
    part = part_at(document.parts, start) if document.parts else None
    return Hit(
        document.id,
        score,
        text,
        document.title,
        document.metadata,
        start,
        end,
        line,
        part.page if part else None,
        headings_of(document.parts, start, end),
        part.anchor if part else "",
        found_by,
    )
