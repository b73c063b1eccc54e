"""Batches: split the documents of an addition into parts that are read within seconds.

Each batch is committed separately: its words are found while the others are read, and a kill loses
only the current one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np

from slimdex.errors import InputError, shorten
from slimdex.indexes.arrays import Rows

from ..documents import Document, check_document
from ..sources.given_vectors import DocumentVectors
from ..store.document_store import DocumentStore
from .addition import Missing

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
        self._seen = set[int]()  # hashes of ids, which take less memory

    def missing_in_all(self, missing: Missing, store: DocumentStore) -> Rows:
        """Return what `missing` returns, except documents that a batch contained."""
        documents = missing(store)
        ids = store.ids_of(documents) if len(documents) else []
        return documents[[hash(id) not in self._seen for id in ids]]

    def __iter__(self) -> Iterator[Batch]:
        """Yield at least one batch.

        Raises `InputError` for a malformed document, if there is not one given vector for each, or
        if an id occurs twice.
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
        for id in (each.id for each in documents):
            if hash(id) in self._seen:
                raise InputError(f"id {shorten(id)} occurs twice; expected each id once")
            self._seen.add(hash(id))
        vectors = self._vectors
        if vectors is not None:
            vectors = vectors.take(np.arange(first, first + len(documents)))
        return Batch(documents, vectors, first, characters, is_last)
