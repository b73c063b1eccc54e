"""Batches: split the documents of an addition into parts that are read within seconds.

Each batch is committed separately: its words are found while the others are read, and a kill loses
only the current one.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace
from functools import partial
from time import monotonic

import numpy as np

from slimdex.errors import InputError, shorten
from slimdex.indexes.arrays import Rows

from ..documents import Document, check_document
from ..store.document_store import DocumentStore
from .addition import Addition, Missing

MOST_SECONDS = 5.0
"""Longest time that documents are read before they are committed."""
MOST_CHARACTERS = 1 << 25
MOST_DOCUMENTS = 1 << 15


def in_batches(addition: Addition) -> Iterator[Addition]:
    """Yield the batches of an addition, at least one; only the last has its `missing`.

    Raises `InputError` for a malformed document, if there is not one given vector for each, or if
    an id occurs twice.
    """
    seen = set[int]()  # hashes of ids, which take less memory
    filled = list[Document]()
    characters = 0
    end = monotonic() + MOST_SECONDS
    vectors = addition.vectors

    def batch(*, is_last: bool) -> Addition:
        """A batch of the documents that were read last."""
        given = None
        if vectors is not None:
            given = vectors.take(np.arange(len(seen) - len(filled), len(seen)))
        missing = addition.missing if is_last else None
        if missing is not None:
            missing = partial(_missing_in_all, missing, seen)
        return replace(addition, documents=filled, vectors=given, missing=missing, is_last=is_last)

    # A full batch is yielded only once another document follows: otherwise it is the last one.
    for each in addition.documents:
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
            f"{vectors.name}: {len(vectors)} rows for {len(seen)} documents; expected one for each"
        )
    yield batch(is_last=True)


def _missing_in_all(missing: Missing, seen: Set[int], store: DocumentStore) -> Rows:
    """Return what `missing` returns, except documents that a batch contained."""
    documents = missing(store)
    ids = store.ids_of(documents)
    return documents[[hash(id) not in seen for id in ids]]
