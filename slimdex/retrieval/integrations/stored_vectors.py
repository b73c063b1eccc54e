"""Vectors of hits, as the index stores them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slimdex.indexes.arrays import Matrix

from ..collection import Collection
from ..documents import Hit


def vectors_of(collection: Collection, hits: Sequence[Hit]) -> Matrix:
    """The encoder's vectors (n, dim) of the passages of hits, without encoding them again."""
    documents = collection.get([hit.id for hit in hits], vectors=True)
    vectors = []
    for hit, document in zip(hits, documents, strict=True):
        assert document.vectors is not None
        # The hit's passage has the same start; an uncut document has one vector.
        starts = [start for start, _ in document.passages]
        number = starts.index(hit.start) if hit.start in starts else 0
        vectors.append(np.asarray(document.vectors[number], dtype=np.float32))
    return np.stack(vectors)
