"""Text vectors: encode texts, but none that has a vector already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import compress
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.system.workers import Workers

from ..encoders.base import Encoder, Lengths
from ..encoders.encoding import EncodingError, encode_texts
from ..index import Index
from ..sources.given_vectors import DocumentVectors
from ..store.document_store import DocumentStore
from ..store.manifest import Manifest
from ..store.snapshot import Snapshot
from ..store.state import State
from .addition_report import NAMED, AdditionReport

READ_AT_ONCE = 1024
ANY_TEXT = "a"
"""Text that no working encoder refuses."""
NOT_READ: Lengths = np.array([[1, 0]])
"""Tokens of a text that an encoder refuses, and how many of them it has read."""
DIGEST_BYTES = 16
"""Of digests that are practically free of collisions."""


@dataclass(frozen=True)
class StoredTexts:
    """Texts of an index that may have vectors: digest of each text -> its row.

    Texts of replaced or deleted documents are not encoded again. So only the changed passages of a
    document are encoded, and none if it has only moved. The rows are those of a manifest; another
    one may number them differently.
    """

    rows: Mapping[bytes, int] = field(default_factory=dict)
    manifest: Manifest | None = None

    @classmethod
    def of(cls, store: DocumentStore, rows: Rows) -> StoredTexts:
        """Collect the texts of some rows (n,), in order."""
        digests = list[bytes]()
        for part in batches(len(rows), READ_AT_ONCE):
            digests += map(_digest, store.contents(rows[part]))
        return cls(dict(zip(digests, rows.tolist(), strict=True)), store.manifest)

    def vectors(self, snapshot: Snapshot, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Map texts to their vectors; texts without one are left out."""
        state = snapshot.state
        if self.manifest is None or not snapshot.manifest.keeps_rows_of(self.manifest):
            return {}
        row_of = {text: self.rows.get(_digest(text), state.rows) for text in texts}
        known = {text: row for text, row in row_of.items() if row < state.encoded}
        vectors = snapshot.vectors().take(np.array([*known.values()], dtype=np.int64))

        # Rows that were deleted before they were encoded have zeros.
        pairs = zip(known, vectors, strict=True)
        return {text: vector for text, vector in pairs if vector.any()}


NO_TEXTS = StoredTexts()


@dataclass(frozen=True)
class EncodedTexts:
    """Vectors of texts.

    Attributes
    ----------
    vectors : (n, dim); zeros for empty texts, and those that the encoder refused.
    report : how many texts were encoded, and read only in part; others have vectors of equal ones.
    characters, seconds : the size of the former, and how long it took.
    """

    vectors: DocumentVectors
    report: AdditionReport
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

    # The vectors of known and of new texts.
    vector_of = index.read(stored.vectors, [*names])
    new = [text for text in names if text not in vector_of]
    report = AdditionReport()
    start = perf_counter()
    if new:
        encoder = index.encoder_of(state)
        ids_of_new = [names[text] for text in new]
        new_vectors, lengths = _encode(encoder, new, ids_of_new, state.dim, index.workers)
        vector_of |= zip(new, new_vectors, strict=True)

        # The documents of texts that the encoder has read only in part.
        partly_read = {*compress(new, lengths[:, 0] > lengths[:, 1])}
        pairs = zip(ids, texts, strict=True)
        documents = [*dict.fromkeys(id for id, text in pairs if text in partly_read)]
        report = AdditionReport(
            encoded=len(new), partly=len(documents), named=tuple(documents[:NAMED])
        )
    seconds = perf_counter() - start

    # The vector of each text.
    vector_of[""] = np.zeros(state.dim, dtype=np.float32)
    vectors = DocumentVectors(np.array([vector_of[text] for text in texts]))
    return EncodedTexts(vectors, report, sum(map(len, new)), seconds)


def _encode(
    encoder: Encoder, texts: Sequence[str], ids: Sequence[str], dim: int, workers: Workers
) -> tuple[Matrix, Lengths]:
    """Encode texts as `encode_texts` does, but leave out those that the encoder refuses.

    They get zeros, and are `NOT_READ`. Raises `EncodingError` if the
    encoder refuses even `ANY_TEXT`, so that the texts are not to blame.
    """
    try:
        return encode_texts(encoder, texts, ids, dim, workers)
    except EncodingError as error:
        try:
            encode_texts(encoder, [ANY_TEXT] * len(texts), ids, dim, workers)
        except EncodingError:
            raise error from None  # it is not the text

    # Find the texts to blame.
    if len(texts) == 1:
        return np.zeros((1, dim), dtype=np.float32), NOT_READ
    half = len(texts) // 2
    first, first_lengths = _encode(encoder, texts[:half], ids[:half], dim, workers)
    rest, rest_lengths = _encode(encoder, texts[half:], ids[half:], dim, workers)
    return np.concatenate([first, rest]), np.concatenate([first_lengths, rest_lengths])


def _digest(text: str) -> bytes:
    """Digest of a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
