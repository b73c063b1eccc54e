"""Addition: documents to add, split into batches that are read within seconds.

Each batch is committed separately: its words are found while the others are read, and a kill loses
only the current one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from slimdex.errors import InputError, shorten
from slimdex.indexes.arrays import NO_ROWS, Rows

from ..documents import Document, check_document
from ..sources.given_vectors import DocumentVectors
from ..store.document_store import DocumentStore

if TYPE_CHECKING:
    from .source_ids import SourceIds

Missing = Callable[[DocumentStore, Set[int]], Rows]
MOST_SECONDS = 5.0
"""Longest time that documents are read before they are committed."""
MOST_CHARACTERS = 1 << 25
MOST_DOCUMENTS = 1 << 15


@dataclass(frozen=True)
class Addition:
    """Documents to add, of a whole addition or of one batch.

    Attributes
    ----------
    vectors : one for each document; by default the encoder's.
    ids : how they were chosen, if documents are of sources.
    missing : given the store and `seen`, finds first rows of documents to delete with the last
        batch, which may then be empty.
    is_last : whether no other batch follows.
    seen : hashes, which take less memory, of the ids of all documents read so far.
    """

    documents: Iterable[Document]
    vectors: DocumentVectors | None = None
    ids: SourceIds | None = None
    missing: Missing | None = None
    is_last: bool = True
    seen: set[int] = field(default_factory=set)

    def gone(self, store: DocumentStore) -> Rows:
        """First rows of documents to delete in the same commit."""
        return self.missing(store, self.seen) if self.missing is not None else NO_ROWS

    def batches(self) -> Iterator[Addition]:
        """Yield the batches, at least one.

        Raises `InputError` for a malformed document, if there is not one given vector for each, or
        if an id occurs twice.
        """
        seen = self.seen
        filled = list[Document]()
        characters = 0
        end = monotonic() + MOST_SECONDS
        vectors = self.vectors

        def batch(*, is_last: bool) -> Addition:
            """A batch of the documents that were read last."""
            numbers = np.arange(len(seen) - len(filled), len(seen))
            given = None if vectors is None else vectors.take(numbers)
            missing = self.missing if is_last else None
            return replace(self, documents=filled, vectors=given, missing=missing, is_last=is_last)

        # A full batch is yielded only once another document follows: otherwise it is the last one.
        for each in self.documents:
            document = check_document(each)
            if hash(document.id) in seen:
                raise InputError(f"id {shorten(document.id)} occurs twice; expected each id once")
            is_full = len(filled) >= MOST_DOCUMENTS or characters >= MOST_CHARACTERS
            is_late = filled and monotonic() >= end
            has_vectors = vectors is None or len(seen) < len(vectors)
            if has_vectors and (is_full or is_late):
                yield batch(is_last=False)
                filled = []
                characters = 0
                end = monotonic() + MOST_SECONDS
            filled.append(document)
            seen.add(hash(document.id))
            characters += len(document.title) + len(document.text)

        # The rest is the last batch. Given vectors must be as many as the documents.
        if vectors is not None and len(vectors) != len(seen):
            raise InputError(
                f"{vectors.name}: {len(vectors)} rows for {len(seen)} documents; expected one each"
            )
        yield batch(is_last=True)
