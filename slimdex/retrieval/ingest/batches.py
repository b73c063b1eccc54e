"""Batches: split the documents of an addition into parts that are read within seconds.

Each batch is committed separately: its words are found while the others are read, and a kill loses
only the current one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows

from ..documents import Document, check_document
from ..sources.given_vectors import DocumentVectors
from ..store.document_store import DocumentStore
from .addition import DuplicateKeyError, Missing
from .text_vectors import DIGEST, digests_of

MOST_SECONDS = 5.0
"""Longest time that documents are read before they are committed."""
MOST_CHARACTERS = 1 << 25
MOST_DOCUMENTS = 1 << 15
LEAST_DOCUMENTS = 2
"""Fewest documents of a batch: some reducers need two vectors."""


@dataclass(frozen=True)
class Batch:
    """Documents that are committed together.

    Attributes
    ----------
    vectors : the given vector of each; None if the encoder makes them.
    first : number of the first document in the addition, from 0.
    characters : of titles and texts.
    is_last : whether the addition ends with this batch.
    """

    documents: Sequence[Document]
    vectors: DocumentVectors | None = None
    first: int = 0
    characters: int = 0
    is_last: bool = True

    @property
    def is_only(self) -> bool:
        """Whether the addition has no other batch."""
        return not self.first and self.is_last


class Batches:
    """Iterate over the batches of an addition."""

    def __init__(
        self, documents: Iterable[Document], vectors: DocumentVectors | None = None
    ) -> None:
        self._documents = documents
        self._vectors = vectors
        self._seen = _Ids()

    def missing_in_all(self, missing: Missing, store: DocumentStore) -> Rows:
        """Return what `missing` returns, except documents that a batch contained."""
        documents = missing(store)
        ids = store.ids_of(documents) if len(documents) else []
        return documents[~self._seen.are_known(ids)]

    def __iter__(self) -> Iterator[Batch]:
        """Yield at least one batch.

        Raises `InputError` for a malformed document, or if there is not one given vector for each,
        and `DuplicateKeyError` if an id occurs twice.
        """
        # A full batch is yielded only once another document follows: otherwise it is the last one.
        filled = list[Document]()
        first = 0
        read = 0
        characters = 0
        end = monotonic() + MOST_SECONDS
        for each in self._documents:
            document = check_document(each)
            read += 1
            if self._vectors is not None and read > len(self._vectors):
                continue  # only to count them, for the error below
            is_full = len(filled) >= MOST_DOCUMENTS or characters >= MOST_CHARACTERS
            if is_full or (len(filled) >= LEAST_DOCUMENTS and monotonic() >= end):
                yield self._batch(filled, first, characters, is_last=False)
                first += len(filled)
                filled = []
                characters = 0
                end = monotonic() + MOST_SECONDS
            filled.append(document)
            characters += len(document.title) + len(document.text)

        # The rest is the last batch. Given vectors must be as many as the documents.
        if self._vectors is not None and len(self._vectors) != read:
            raise InputError(
                f"{self._vectors.name}: {len(self._vectors)} rows for {read} documents; "
                "expected one for each"
            )
        yield self._batch(filled, first, characters, is_last=True)

    def _batch(
        self, documents: list[Document], first: int, characters: int, *, is_last: bool
    ) -> Batch:
        """Make a batch of collected documents; the other arguments are attributes of `Batch`."""
        self._seen.add(documents)
        vectors = self._vectors
        if vectors is not None:
            vectors = vectors.take(np.arange(first, first + len(documents)))
        return Batch(documents, vectors, first, characters, is_last)


class _Ids:
    """Ids of all batches so far, as digests of 16 bytes, practically free of collisions."""

    def __init__(self) -> None:
        self._batches = list[NDArray[np.bytes_]]()  # digests of each batch, sorted
        self._numbers = list[NDArray[np.int64]]()  # numbers of their documents, from 0
        self._count = 0

    def add(self, documents: Sequence[Document]) -> int:
        """Add the ids of a batch; return the number of ids so far.

        Raises `DuplicateKeyError` if an id occurs twice.
        """
        if not documents:
            return self._count

        # Reject an id that an earlier batch has, too.
        digests = np.array(digests_of([each.id for each in documents]), dtype=DIGEST)
        for known, numbers in zip(self._batches, self._numbers, strict=True):
            positions, is_known = _positions_of(digests, known)
            if is_known.any():
                second = int(is_known.argmax())
                earlier = int(numbers[positions[second]])
                raise DuplicateKeyError(documents[second].id, earlier, self._count + second)

        # Reject an id that occurs twice in this batch: once sorted, equal digests are neighbours.
        order = np.argsort(digests, kind="stable")
        ordered = digests[order]
        numbers = self._count + order
        repeated = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(repeated):
            first, second = numbers[repeated[0] : repeated[0] + 2].tolist()
            raise DuplicateKeyError(documents[first - self._count].id, first, second)
        self._batches.append(ordered)
        self._numbers.append(numbers)
        self._count += len(documents)
        return self._count

    def are_known(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Return for each id (n,) whether a batch contained it."""
        digests = np.array(digests_of(ids), dtype=DIGEST)
        known_ids = np.zeros(len(ids), dtype=np.bool_)
        for known in self._batches:
            known_ids |= _positions_of(digests, known)[1]
        return known_ids


def _positions_of(
    digests: NDArray[np.bytes_], known: NDArray[np.bytes_]
) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the position of each digest among sorted ones (n,), and whether it is there (n,).

    The position of a missing digest has no meaning.
    """
    positions = np.minimum(np.searchsorted(known, digests), len(known) - 1)
    return positions, known[positions] == digests
