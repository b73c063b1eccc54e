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
from ..encoders.encoding import CHARACTERS_PER_TOKEN, EncodingError, encode_texts
from ..index import Index
from ..sources.given_vectors import DocumentVectors
from ..store.document_store import DocumentStore
from ..store.snapshot import Snapshot
from ..store.state import State
from .addition_report import NAMED, AdditionReport

READ_AT_ONCE = 1024
ANY_TEXT = "a"
"""Text that no working encoder refuses."""
DIGEST = np.dtype("S16")
"""Digests of 16 bytes, practically free of collisions."""


@dataclass(frozen=True)
class StoredTexts:
    """Sorted digests (n,) of some of an index's texts, and the row (n,) of each, with its vector.

    Texts of replaced or deleted documents are not encoded again. So only the changed passages of a
    document are encoded, and none if it has only moved. The rows are valid in one `State.epoch`;
    another one may number them differently.
    """

    digests: NDArray[np.bytes_]
    rows: Rows
    epoch: int = 0

    @classmethod
    def of(cls, store: DocumentStore, documents: Rows) -> StoredTexts:
        """Collect the texts of documents with vectors, given by their first rows in order."""
        document_rows = store.manifest.document_rows
        collected = list[bytes]()
        for part in batches(len(documents), READ_AT_ONCE):
            collected += digests_of(store.contents(document_rows.all_rows(documents[part])))
        digests = np.array(collected, dtype=DIGEST)
        order = np.argsort(digests, kind="stable")
        rows = document_rows.all_rows(documents)
        return cls(digests[order], rows[order], store.epoch)

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
    vector_of = index.read(_known_vectors, state, stored, [*names])
    new = [text for text in names if text not in vector_of]
    report = AdditionReport()
    start = perf_counter()
    if new:
        encoder = index.encoder_of(state)
        ids_of_new = [names[text] for text in new]
        new_vectors, lengths = _encode(encoder, new, ids_of_new, state.dim, index.workers)
        vector_of |= zip(new, new_vectors, strict=True)
        report = _report(ids, texts, new, lengths)
    seconds = perf_counter() - start

    # The vector of each text.
    matrix: Matrix = np.zeros((len(texts), state.dim), dtype=np.float32)
    for number, text in enumerate(texts):
        if text:
            matrix[number] = vector_of[text]
    return EncodedTexts(DocumentVectors(matrix), report, sum(map(len, new)), seconds)


def _report(
    ids: Sequence[str], texts: Sequence[str], new: Sequence[str], lengths: Lengths
) -> AdditionReport:
    """Count encoded texts, and the documents of those that the encoder read only in part.

    `lengths` (n, 2) has the tokens of each new text, and how many were read, or no rows if the
    encoder doesn't tell.
    """
    is_cut = lengths[:, 0] > lengths[:, 1]
    counts = dict(zip(compress(new, is_cut), lengths[is_cut], strict=True))
    cut = [(id, counts[text]) for id, text in zip(ids, texts, strict=True) if text in counts]
    documents = [*dict.fromkeys(id for id, _ in cut)]
    tokens, read = np.array([count for _, count in cut]).reshape(-1, 2).sum(axis=0).tolist()
    return AdditionReport(
        encoded=len(new),
        partly=len(documents),
        tokens=int(tokens),
        read=int(read),
        named=tuple(documents[:NAMED]),
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
) -> dict[str, NDArray[np.float32]]:
    """Map the texts that have vectors to these; if `state` is of another epoch, none has."""
    row_of = stored.rows_of(snapshot.state, texts) if snapshot.state.epoch == state.epoch else {}
    if not row_of:
        return {}
    vectors = snapshot.vectors().take(np.array([*row_of.values()], dtype=np.int64))
    return dict(zip(row_of, vectors, strict=True))


def digests_of(texts: Sequence[str]) -> list[bytes]:
    """Digest of each text."""
    digests = []
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digests.append(blake2b(encoded, digest_size=DIGEST.itemsize).digest())
    return digests
