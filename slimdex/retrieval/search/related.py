"""Related documents: those nearest in meaning to a document that the index has."""

from __future__ import annotations

import numpy as np

from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.errors import InputError

from ..documents import Hit
from ..storage.snapshot import Snapshot
from .hits import nearest_hits
from .request import SearchRequest


def related(snapshot: Snapshot, id: str, limit: int = 10, where: str | None = None) -> list[Hit]:
    """Find the documents nearest to a document, best first, without itself.

    The query is the mean of the stored vectors of its passages, each of length 1, so nothing is
    encoded. `limit` and `where` are as for `Collection.search`.

    Raises `InputError` if the id is unknown, the document has no text, or as a search does.
    """
    SearchRequest(texts=id, limit=limit)  # checks the limit
    first = snapshot.row_of(id)
    rows = snapshot.document_rows.all_rows(np.array([first]))
    rows = rows[~np.isin(rows, snapshot.hidden)]
    if not len(rows):
        raise InputError(f"document {id!r} has no text; expected one with text")
    mean = normalize_rows(snapshot.index.vectors.take(rows)).mean(axis=0, keepdims=True)
    request = SearchRequest(vectors=mean, limit=limit + 1, where=where)
    (hits,) = nearest_hits(snapshot, request)
    return [hit for hit in hits if hit.id != id][:limit]
