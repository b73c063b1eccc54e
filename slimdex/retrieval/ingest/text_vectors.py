"""Text vectors: look up vectors by their texts, so that no text is encoded twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches

from ..encoders.base import Lengths
from ..store.document_store import DocumentStore
from ..store.readings import PartlyRead
from ..store.snapshot import Snapshot
from .encoding import partly_read

READ_AT_ONCE = 1024
DIGEST = np.dtype("S16")
"""Digests of 16 bytes, practically free of collisions."""


class TextVectors:
    """Vectors of texts by one encoder, and how many tokens of each it read.

    Attributes
    ----------
    encoder : the encoder's specification.
    """

    def __init__(self, encoder: dict[str, Any], dim: int) -> None:
        self.encoder = encoder
        self._row_of = dict[str, int]()  # text -> row of the two arrays
        self._vectors: Matrix = np.zeros((0, dim), dtype=np.float32)
        self._lengths: Lengths = np.zeros((0, 2), dtype=np.int64)

    def add(self, texts: Sequence[str], vectors: Matrix, lengths: Lengths) -> None:
        """Add texts that are not known yet, with their vectors (n, dim).

        `lengths` (n, 2) has the tokens and tokens read of each text, both 0 if all are read.
        """
        first = len(self._vectors)
        self._row_of |= zip(texts, range(first, first + len(texts)), strict=True)
        self._vectors = np.concatenate([self._vectors, vectors]) if first else vectors
        self._lengths = np.concatenate([self._lengths, lengths]) if first else lengths

    def unknown(self, texts: Iterable[str]) -> list[str]:
        """Return each of these texts that has no vector yet, once; empty texts need none."""
        return [text for text in dict.fromkeys(texts) if text and text not in self._row_of]

    def rows(self, texts: Sequence[str]) -> Matrix:
        """Return the vectors (n, dim) of known texts; zeros for empty ones."""
        rows, has_text = self._rows_of(texts)
        vectors: Matrix = np.zeros((len(texts), self._vectors.shape[1]), dtype=np.float32)
        vectors[has_text] = self._vectors[rows]
        return vectors

    def partly_read(self, texts: Sequence[str]) -> PartlyRead:
        """Map the positions of texts that were read in part to tokens and tokens read.

        Both are 0 for empty texts.
        """
        rows, has_text = self._rows_of(texts)
        empty = np.flatnonzero(~has_text).tolist()
        partly = partly_read(np.flatnonzero(has_text), self._lengths[rows])
        return {**dict.fromkeys(empty, (0, 0)), **partly}

    def _rows_of(self, texts: Sequence[str]) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the rows of the texts that are not empty, and a mask of these texts (n,)."""
        rows = [self._row_of[text] for text in texts if text]
        has_text = [*map(bool, texts)]
        return np.array(rows, dtype=np.int64), np.array(has_text, dtype=bool)


@dataclass(frozen=True)
class StoredTexts:
    """Sorted digests (n,) of an index's texts, and for each a row (n,) that has its vector.

    Texts of replaced or deleted documents are not encoded again. So only the changed passages of a
    document are encoded, and none if it has only moved. The rows are valid in one `State.epoch`;
    another one may number them differently.
    """

    digests: NDArray[np.bytes_]
    rows: Rows
    epoch: int = 0

    @classmethod
    def of(cls, store: DocumentStore, documents: Rows) -> StoredTexts:
        """Collect the texts of documents, which are given by their first rows in order."""
        collected = list[bytes]()
        for part in batches(len(documents), READ_AT_ONCE):
            collected += digests_of(store.contents_of(documents[part]))
        rows = store.manifest.document_rows.all_rows(documents)
        return cls._sort(np.array(collected, dtype=DIGEST), rows, store.epoch)

    @classmethod
    def _sort(cls, digests: NDArray[np.bytes_], rows: Rows, epoch: int) -> StoredTexts:
        """Create from digests in any order."""
        order = np.argsort(digests, kind="stable")
        return cls(digests[order], rows[order], epoch)

    def add_vectors_to(self, snapshot: Snapshot, known: TextVectors, texts: Sequence[str]) -> None:
        """Add the vectors of stored `texts` to `known`, unless rows have been renumbered.

        Texts whose vectors are already known are skipped.
        """
        if snapshot.state.epoch != self.epoch or not len(self.rows):
            return

        # Find the texts that have a vector, by their digests.
        unknown = known.unknown(texts)
        requested = np.array(digests_of(unknown), dtype=DIGEST)
        positions = np.minimum(np.searchsorted(self.digests, requested), len(self.rows) - 1)
        stored = np.flatnonzero(self.digests[positions] == requested)
        if not len(stored):
            return

        # Their vectors, and how many of their tokens were read.
        rows = self.rows[positions[stored]]
        partly = snapshot.store.readings.of(rows)
        lengths = np.array([partly.get(row, (0, 0)) for row in rows.tolist()], dtype=np.int64)
        known.add([unknown[i] for i in stored], snapshot.vectors().take(rows), lengths)


def digests_of(texts: Sequence[str]) -> list[bytes]:
    """Digest of each text."""
    digests = []
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digests.append(blake2b(encoded, digest_size=DIGEST.itemsize).digest())
    return digests
