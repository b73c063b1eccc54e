"""Hits of rows: their documents, and the passages that were found."""

from __future__ import annotations

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import CorruptError
from slimdex.indexes.execution.timing import stage

from ..documents import Document, Hit
from ..lexical.fusion import FOUND_BY, MEANING
from ..passages import headings_of, part_at
from ..storage.snapshot import Snapshot
from .nearest import nearest, searches_of
from .request import Hits, SearchRequest


def hits(snapshot: Snapshot, scores: Matrix, rows: Rows, found_by: Rows | None = None) -> Hits:
    """Hits of each query from `Nearest`; `found_by` is by default "meaning" for all."""
    firsts = snapshot.document_rows.documents(rows)
    first_rows = sorted({int(row) for row in firsts.flat if row >= 0})
    with stage("fetch"):
        documents = snapshot.documents(first_rows)
    by = np.full(rows.shape, MEANING) if found_by is None else found_by
    scores = np.minimum(scores, 1)  # no cosine is greater, however it was rounded
    return [
        [
            hit_of(documents[first], row - first, score, FOUND_BY[how])
            for score, row, first, how in zip(*query_rows, strict=True)
            if row >= 0
        ]
        for query_rows in zip(*(each.tolist() for each in (scores, rows, firsts, by)), strict=True)
    ]


def nearest_hits(snapshot: Snapshot, request: SearchRequest) -> Hits:
    """Hits of each query of an encoded request, whatever they score."""
    return hits(snapshot, *nearest(searches_of(snapshot, request), request))


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
