"""Addition: documents to add, and checks of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows

from ..documents import Document
from ..sources.given_vectors import DocumentVectors, check_vectors
from ..store.document_store import DocumentStore
from .cutting import LeaveOut

if TYPE_CHECKING:
    from .source_ids import SourceIds

Missing = Callable[[DocumentStore], Rows]
"""Find the documents to delete: see `Addition`."""


class NoDocumentsError(InputError):
    """There is nothing to add."""


@dataclass(frozen=True)
class Addition:
    """Documents to add, of a whole addition or of one batch.

    Once they are read, `missing` receives the store, and returns the first rows of documents to
    delete in the same commit. With it, the documents to add may be empty.
    """

    documents: Iterable[Document]
    vectors: DocumentVectors | None = None  # one for each document; by default the encoder's
    ids: SourceIds | None = None  # how they were chosen, if documents are of sources
    missing: Missing | None = None
    leave_out: LeaveOut | None = None  # for files
    is_last: bool = True  # whether no other batch follows


def check_document_vectors(vectors: DocumentVectors, dim: int) -> None:
    """Raise `InputError` unless vectors have `dim` dimensions and finite values."""
    if vectors.dim != dim:
        reduced = " (`slimdex export --vectors full` writes these)" * (vectors.dim < dim)
        raise InputError(
            f"{vectors.name}: {vectors.dim} dimensions; expected {dim}, as the encoder has{reduced}"
            f"; for others, create an index with GivenEncoder({vectors.dim})"
        )
    check_vectors(vectors)
