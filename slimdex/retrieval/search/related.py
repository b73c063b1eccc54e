"""Related documents: those nearest in meaning to a document that the index has."""

from __future__ import annotations

import numpy as np

from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.errors import InputError

from ..catalog.database import RenumberedError
from ..documents import Hit
from .request import SearchRequest
from .snapshot_reader import SnapshotReader


def related(view: SnapshotReader, id: str, limit: int = 10, where: str | None = None) -> list[Hit]:
    """Find the documents nearest to a document, best first, without itself.

    The query is the mean of the stored vectors of its passages, each of length 1, so nothing is
    encoded.

    Parameters
    ----------
    limit, where : as for `Collection.search`.

    Raises
    ------
    InputError
        If the id is unknown, the document has no text, or as a search does.
    """
    SearchRequest(texts=id, limit=limit)  # checks the limit
    snapshot = view.snapshot
    first = view.row_of(id)
    if first >= snapshot.state.rows:
        raise RenumberedError  # added since: a newer snapshot has it
    rows = snapshot.document_rows.all_rows(np.array([first]))
    rows = rows[~np.isin(rows, snapshot.hidden)]
    if not len(rows):
        raise InputError(f"document {id!r} has no text; expected one with text")
    mean = normalize_rows(snapshot.index.vectors.take(rows)).mean(axis=0, keepdims=True)
    request = SearchRequest(vectors=mean, limit=limit + 1, where=where)
    (found,) = view.shown(*view.nearest(request))
    return [hit for hit in found if hit.id != id][:limit]
