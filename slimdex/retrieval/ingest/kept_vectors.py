"""Kept vectors: texts of replaced or deleted documents need not be encoded again.

So only the changed passages of a document are encoded, and none if it was only moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows, batches
from slimdex.indexes.search.reduced_index import NO_ROWS

from ..storage.change import Change

READ_AT_ONCE = 1024
DIGEST = np.dtype("S16")
"""Digests of 16 bytes, practically free of collisions."""


@dataclass(frozen=True)
class KeptVectors:
    """Digests (n,) of texts, sorted, and the row of the vector of each."""

    digests: NDArray[np.bytes_]
    rows: Rows

    @classmethod
    def of(cls, change: Change, gone: Rows = NO_ROWS) -> KeptVectors:
        """Digests of the documents that staged ones replace, and of the documents `gone`."""
        state = change.state
        documents = np.union1d(change.store.ids.replaced(state.rows), gone)
        collected = list[bytes]()
        for part in batches(len(documents), READ_AT_ONCE):
            collected += digests_of(change.store.documents.contents_of(documents[part]))
        rows = change.document_rows().all_rows(documents)
        return cls.sorted(np.array(collected, dtype=DIGEST), rows)

    @classmethod
    def sorted(cls, digests: NDArray[np.bytes_], rows: Rows) -> KeptVectors:
        """Digests in any order, and the row of each."""
        order = np.argsort(digests, kind="stable")
        return cls(digests[order], rows[order])

    def among(self, texts: Sequence[str]) -> tuple[Rows, Rows]:
        """Positions of the texts that have a vector, in order, and the row of each."""
        if not len(self.rows):
            return NO_ROWS, NO_ROWS
        requested = np.array(digests_of(texts), dtype=DIGEST)
        places = np.minimum(np.searchsorted(self.digests, requested), len(self.rows) - 1)
        known = np.flatnonzero(self.digests[places] == requested)
        return known, self.rows[places[known]]


def digests_of(texts: Sequence[str]) -> list[bytes]:
    """Digest of each text."""
    encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
    return [blake2b(text, digest_size=DIGEST.itemsize).digest() for text in encoded]
