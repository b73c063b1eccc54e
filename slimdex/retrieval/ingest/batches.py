"""Batches: split the documents of an addition into parts that take about ten seconds to encode.

Each batch is committed separately: searches find it while the addition is still running, and a kill
loses only the current batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows
from slimdex.system.workers import IN_THIS_PROCESS

from ..documents import Document, check_document
from ..index import Index
from ..sources.given_vectors import DocumentVectors
from ..store.document_store import DocumentStore
from ..store.snapshot import Snapshot
from .addition import DuplicateKeyError, Missing
from .encoding import TEXT_CHARACTERS
from .preparing import documents_that_differ
from .text_vectors import DIGEST, digests_of

SECONDS = 10.0
SECONDS_IN_PROCESSES = 60.0
"""Target encoding time of a batch, in this process and in others, which receive the encoder again
with each batch."""
FIRST_CHARACTERS = 1 << 17
FIRST_IN_PROCESSES = 1 << 21
"""Characters of the first batch, before the encoder's speed is known."""
MOST_CHARACTERS = 1 << 25
MOST_DOCUMENTS = 1 << 15
LEAST_DOCUMENTS = 2
"""Fewest documents of a batch: some reducers need two vectors."""
GROWTH = 8
"""Largest size of a batch, relative to the one before it."""
READ_DOCUMENTS = 256
READ_CHARACTERS = 1 << 16
"""Most documents, and characters, that are read and looked up at a time."""


@dataclass(frozen=True)
class Batch:
    """Documents that are committed together.

    Attributes
    ----------
    vectors : the given vector of each; None if the encoder makes them.
    first, stop : the batch has the documents of the addition from number `first` to before `stop`.
    characters : cost of encoding all documents before `stop`: see `_characters`.
    to_encode : cost of this batch, without documents whose text the index already has.
    is_last : whether the addition ends with this batch.
    """

    documents: Sequence[Document]
    vectors: DocumentVectors | None = None
    first: int = 0
    stop: int = 0
    characters: int = 0
    to_encode: int = 0
    is_last: bool = True

    @property
    def is_only(self) -> bool:
        """Whether the addition has no other batch."""
        return not self.first and self.is_last


class Batches:
    """Iterate over the batches of an addition.

    Documents whose text the index already has are not encoded, so they do not fill a batch. Given
    vectors take no time: they are split by the number of documents and characters alone.
    """

    def __init__(
        self, index: Index, documents: Iterable[Document], vectors: DocumentVectors | None = None
    ) -> None:
        self._index = index
        self._documents = documents
        self._vectors = vectors
        self._limit = FIRST_CHARACTERS
        self._seconds = SECONDS
        if index.workers is not IN_THIS_PROCESS:
            self._limit = FIRST_IN_PROCESSES
            self._seconds = SECONDS_IN_PROCESSES
        self._seen = _Ids()
        self._read = 0  # documents, including those read ahead for the next batch
        self.characters = 0  # cost of encoding these

    def took(self, characters: int, seconds: float) -> None:
        """Adapt the size of the next batch to the time that encoding took."""
        if characters:
            enough = int(characters * self._seconds / max(seconds, 1e-3))
            self._limit = min(max(enough, READ_CHARACTERS), GROWTH * self._limit, MOST_CHARACTERS)

    def estimate_count(self, share: float) -> int:
        """Estimate the number of all documents from the share read so far; 0 if unknown."""
        return round(self._read / share) if share else 0

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
        # A full batch is yielded only once another document follows: otherwise it is the last
        # batch.
        filled = _GrowingBatch()
        first = 0
        characters = 0
        for part in self._parts():
            self._read += len(part)
            self.characters += _characters(part)
            if self._vectors is not None and self._read > len(self._vectors):
                continue  # only to count them, for the error below
            if self._is_full(filled):
                stop = self._seen.add(filled.documents)
                characters += filled.characters
                yield self._batch(filled, first, stop, characters, is_last=False)
                filled = _GrowingBatch()
                first = stop
            filled.add(part)

        # The rest is the last batch. Given vectors must be as many as the documents.
        if self._vectors is not None and len(self._vectors) != self._read:
            raise InputError(
                f"{self._vectors.name}: {len(self._vectors)} rows for {self._read} documents; "
                "expected one for each"
            )
        stop = self._seen.add(filled.documents)
        characters += filled.characters
        yield self._batch(filled, first, stop, characters, is_last=True)

    def _batch(
        self, filled: _GrowingBatch, first: int, stop: int, characters: int, *, is_last: bool
    ) -> Batch:
        """Make a batch of collected documents; the other arguments are attributes of `Batch`."""
        vectors = self._vectors
        to_encode = filled.most_to_encode
        if vectors is not None:
            vectors = vectors.take(np.arange(first, stop))
        return Batch(
            documents=filled.documents,
            vectors=vectors,
            first=first,
            stop=stop,
            characters=characters,
            to_encode=to_encode,
            is_last=is_last,
        )

    def _is_full(self, filled: _GrowingBatch) -> bool:
        """True if a batch should get no more documents; may look up the texts that it has."""
        if len(filled.documents) < LEAST_DOCUMENTS:
            return False
        if filled.characters >= MOST_CHARACTERS or len(filled.documents) >= MOST_DOCUMENTS:
            return True
        if self._vectors is not None or filled.most_to_encode < self._limit:
            return False

        # Documents whose text the index has are not encoded, so they leave room for others.
        filled.look_up(self._index)
        return filled.most_to_encode >= self._limit

    def _parts(self) -> Iterator[list[Document]]:
        """Yield the documents in small parts."""
        part = list[Document]()
        characters = 0
        for document in self._documents:
            part.append(check_document(document))
            characters += len(document.text)
            if len(part) == READ_DOCUMENTS or characters >= READ_CHARACTERS:
                yield part
                part = []
                characters = 0
        if part:
            yield part


class _GrowingBatch:
    """A batch that is being filled."""

    def __init__(self) -> None:
        self.documents = list[Document]()
        self.characters = 0
        self.most_to_encode = 0  # characters, an upper bound until `look_up`
        self._looked_up = 0  # how many of the documents `look_up` has counted

    def add(self, documents: Sequence[Document]) -> None:
        characters = _characters(documents)
        self.documents += documents
        self.characters += characters
        self.most_to_encode += characters

    def look_up(self, index: Index) -> None:
        """Subtract the documents whose text the index already has."""
        documents = self.documents[self._looked_up :]
        new = index.read(_documents_to_encode, documents)
        self.most_to_encode -= _characters(documents) - _characters(new)
        self._looked_up = len(self.documents)


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


def _characters(documents: Sequence[Document]) -> int:
    """Cost of encoding documents, in characters, including an overhead for each text."""
    return sum(len(each.title) + len(each.text) + TEXT_CHARACTERS for each in documents)


def _documents_to_encode(snapshot: Snapshot, documents: Sequence[Document]) -> Sequence[Document]:
    """Documents whose text, title or parts differ from those of the same id."""
    return documents_that_differ(
        snapshot, documents, snapshot.store.rows_of_ids([each.id for each in documents])
    )
