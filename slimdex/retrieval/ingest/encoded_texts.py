"""Encoded texts: look up vectors by their texts, so that no text is encoded twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.indexes.search.reduced_index import NO_ROWS

from ..encoders.base import Lengths
from ..store.document_store import DocumentStore

READ_AT_ONCE = 1024
DIGEST = np.dtype("S16")
"""Digests of 16 bytes, practically free of collisions."""


class EncodedTexts:
    """Vectors of a batch's texts by one encoder, and how much of the texts it read."""

    def __init__(self, spec: dict[str, Any], dim: int) -> None:
        self.spec, self._dim = spec, dim
        self._digests = list[NDArray[np.bytes_]]()
        self._vectors, self._lengths = list[Matrix](), list[Lengths]()
        self._sorted: KeptVectors | None = None  # whose rows are places among all vectors

    def put(self, texts: Sequence[str], vectors: Matrix, lengths: Lengths) -> None:
        """Keep the vectors (n, dim) of texts, and (n, 2) tokens of each and those read.

        They are not known before `look_up_all`.
        """
        self._digests.append(np.array(digests_of(texts), dtype=DIGEST))
        self._vectors.append(vectors)
        self._lengths.append(lengths)

    def look_up_all(self) -> None:
        """Look texts up among all of them from now on."""
        if len(self._digests) > 1:
            self._digests = [np.concatenate(self._digests)]
            self._vectors = [np.concatenate(self._vectors)]
            self._lengths = [np.concatenate(self._lengths)]
        if self._digests:
            (digests,) = self._digests
            self._sorted = KeptVectors.sorted(digests, np.arange(len(digests)))

    def among(self, texts: Sequence[str]) -> tuple[Rows, Matrix, Lengths]:
        """Positions of the known texts, in order, their vectors and lengths."""
        if self._sorted is None:
            no_lengths: Lengths = np.empty((0, 2), dtype=np.int64)
            return NO_ROWS, np.empty((0, self._dim), dtype=np.float32), no_lengths
        known, places = self._sorted.among(texts)
        return known, self._vectors[0][places], self._lengths[0][places]


@dataclass(frozen=True)
class KeptVectors:
    """Digests (n,) of texts, sorted, and the row of the vector of each, in an epoch of the index.

    Texts of replaced or deleted documents need not be encoded again: so only the changed passages
    of a document are encoded, and none if it was only moved.
    """

    digests: NDArray[np.bytes_]
    rows: Rows
    epoch: int = 0

    @classmethod
    def of(cls, store: DocumentStore, documents: Rows) -> KeptVectors:
        """Collect the texts of documents, which are given by their first rows in order."""
        collected = list[bytes]()
        for part in batches(len(documents), READ_AT_ONCE):
            collected += digests_of(store.contents_of(documents[part]))
        rows = store.manifest.document_rows.all_rows(documents)
        return cls.sorted(np.array(collected, dtype=DIGEST), rows, store.epoch)

    def with_others(self, others: KeptVectors | None) -> KeptVectors:
        """Return these texts and others, which are ignored if their rows were renumbered."""
        if others is None or others.epoch != self.epoch:
            return self
        digests = np.concatenate([self.digests, others.digests])
        rows = np.concatenate([self.rows, others.rows])
        return KeptVectors.sorted(digests, rows, self.epoch)

    @classmethod
    def sorted(cls, digests: NDArray[np.bytes_], rows: Rows, epoch: int = 0) -> KeptVectors:
        """Digests in any order, and the row of each."""
        order = np.argsort(digests, kind="stable")
        return cls(digests[order], rows[order], epoch)

    def among(self, texts: Sequence[str]) -> tuple[Rows, Rows]:
        """Positions of the texts that have a vector, in order, and the row of each."""
        if not len(self.rows):
            return NO_ROWS, NO_ROWS
        requested = np.array(digests_of(texts), dtype=DIGEST)
        places = np.minimum(np.searchsorted(self.digests, requested), len(self.rows) - 1)
        known = np.flatnonzero(self.digests[places] == requested)
        return known, self.rows[places[known]]


NO_VECTORS = KeptVectors(np.zeros(0, dtype=DIGEST), NO_ROWS)


def digests_of(texts: Sequence[str]) -> list[bytes]:
    """Digest of each text."""
    encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
    return [blake2b(text, digest_size=DIGEST.itemsize).digest() for text in encoded]
