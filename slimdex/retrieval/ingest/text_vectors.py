"""Text vectors: encode texts, but none that has a vector already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import compress
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import NO_ROWS, Matrix, Rows, batches
from slimdex.system.workers import Workers

from ..encoders.base import Encoder, Lengths
from ..encoders.encoding import CHARACTERS_PER_TOKEN, EncodingError, encode_texts, partly_read
from ..index import Index
from ..sources.given_vectors import DocumentVectors
from ..store.document_store import DocumentStore
from ..store.readings import PartlyRead
from ..store.snapshot import Snapshot
from ..store.state import State

READ_AT_ONCE = 1024
ANY_TEXT = "a"
"""Text that no working encoder refuses."""
DIGEST = np.dtype("S16")
"""Digests of 16 bytes, practically free of collisions."""


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
        """Collect the texts with vectors of documents, given by their first rows in order."""
        collected = list[bytes]()
        for part in batches(len(documents), READ_AT_ONCE):
            collected += digests_of(store.contents_of(documents[part]))
        rows = store.manifest.document_rows.all_rows(documents)
        has_vector = rows < store.manifest.state.encoded
        digests = np.array(collected, dtype=DIGEST)
        return cls._sort(digests[has_vector], rows[has_vector], store.epoch)

    @classmethod
    def _sort(cls, digests: NDArray[np.bytes_], rows: Rows, epoch: int) -> StoredTexts:
        """Create from digests in any order."""
        order = np.argsort(digests, kind="stable")
        return cls(digests[order], rows[order], epoch)

    def rows_of(self, state: State, texts: Sequence[str]) -> dict[str, int]:
        """Map texts to rows that have their vectors; texts without a vector are left out.

        All are, if rows have been renumbered since.
        """
        if state.epoch != self.epoch or not len(self.rows) or not texts:
            return {}
        digests = np.array(digests_of(texts), dtype=DIGEST)
        positions = np.minimum(np.searchsorted(self.digests, digests), len(self.rows) - 1)
        is_stored = self.digests[positions] == digests
        rows = self.rows[positions].tolist()
        return dict(compress(zip(texts, rows, strict=True), is_stored))


NO_TEXTS = StoredTexts(np.zeros(0, dtype=DIGEST), NO_ROWS)


@dataclass(frozen=True)
class EncodedTexts:
    """Vectors of texts.

    Attributes
    ----------
    vectors : (n, dim); zeros for empty texts, and those that the encoder refused.
    partly : positions of texts that the encoder read only in part, or refused: no token is read.
    count : number of texts that were encoded; the others have vectors of equal ones.
    characters, seconds : their size, and how long it took.
    """

    vectors: DocumentVectors
    partly: PartlyRead
    count: int
    characters: int
    seconds: float


def encode(
    index: Index, state: State, ids: Sequence[str], texts: Sequence[str], stored: StoredTexts
) -> EncodedTexts:
    """Encode the texts of documents, each once, and none that has a vector already."""
    names = dict[str, str]()
    for id, text in zip(ids, texts, strict=True):
        if text:
            names.setdefault(text, id)

    # Vectors of equal texts, and how much of them was read.
    known, vectors, partly = index.read(_known_vectors, state, stored, [*names])
    position_of = {text: position for position, text in enumerate(known)}
    new = [text for text in names if text not in position_of]
    start = perf_counter()
    if new:
        encoder = index.encoder_of(state)
        names_of_new = [names[text] for text in new]
        new_vectors, lengths = _encode(encoder, new, names_of_new, state.dim, index.workers)
        positions = np.arange(len(known), len(names))
        position_of |= zip(new, positions.tolist(), strict=True)
        partly |= partly_read(positions, lengths)
        vectors = np.concatenate([vectors, new_vectors])
    seconds = perf_counter() - start

    # The vector of each text.
    matrix: Matrix = np.zeros((len(texts), state.dim), dtype=np.float32)
    partly_by_row = dict[int, tuple[int, int]]()
    for number, text in enumerate(texts):
        if text:
            position = position_of[text]
            matrix[number] = vectors[position]
            if position in partly:
                partly_by_row[number] = partly[position]
    return EncodedTexts(
        vectors=DocumentVectors(matrix),
        partly=partly_by_row,
        count=len(new),
        characters=sum(map(len, new)),
        seconds=seconds,
    )


def _encode(
    encoder: Encoder, texts: Sequence[str], ids: Sequence[str], dim: int, workers: Workers
) -> tuple[Matrix, Lengths]:
    """Encode texts as `encode_texts` does, but leave out those that the encoder refuses.

    They get zeros, and lengths that say that nothing was read. Raises `EncodingError` if the
    encoder refuses even `ANY_TEXT`, so that the texts are not to blame.
    """
    try:
        return encode_texts(encoder, texts, ids, dim, workers)
    except EncodingError as error:
        try:
            encode_texts(encoder, [ANY_TEXT] * len(texts), ids, dim, workers)
        except EncodingError:
            raise error from None  # it is not the text
        if len(texts) == 1:
            tokens = max(len(texts[0]) // CHARACTERS_PER_TOKEN, 1)
            return np.zeros((1, dim), dtype=np.float32), np.array([[tokens, 0]])
        half = len(texts) // 2
        parts = [
            _encode(encoder, texts[part], ids[part], dim, workers)
            for part in (slice(half), slice(half, None))
        ]
        vectors, lengths = zip(*parts, strict=True)
        return np.concatenate(vectors), np.concatenate(lengths)


def _known_vectors(
    snapshot: Snapshot, state: State, stored: StoredTexts, texts: Sequence[str]
) -> tuple[list[str], Matrix, dict[int, tuple[int, int]]]:
    """Return the texts that have vectors, these (n, dim), and which texts were read in part.

    If `state` is not of the snapshot's epoch, no text has a vector.
    """
    row_of = stored.rows_of(snapshot.state, texts) if snapshot.state.epoch == state.epoch else {}
    partly = snapshot.store.readings.of(np.array([*row_of.values()], dtype=np.int64))
    # Rows that the encoder has refused, or that were deleted before, have no vector.
    row_of = {text: row for text, row in row_of.items() if partly.get(row, (1, 1))[1]}
    if not row_of:
        return [], np.zeros((0, state.dim), dtype=np.float32), {}
    rows = np.array([*row_of.values()], dtype=np.int64)
    by_position = {i: partly[r] for i, r in enumerate(row_of.values()) if r in partly}
    return [*row_of], snapshot.vectors().take(rows), by_position


def digests_of(texts: Sequence[str]) -> list[bytes]:
    """Digest of each text."""
    digests = []
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digests.append(blake2b(encoded, digest_size=DIGEST.itemsize).digest())
    return digests
