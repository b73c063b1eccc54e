"""Addition: documents to add, and checks of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows

from ..documents import Document
from ..sources.given_vectors import DocumentVectors, check_vectors
from ..store.document_store import DocumentStore

Missing = Callable[[DocumentStore], Rows]
"""Find the documents to delete: see `Addition`."""


class ChangedOriginsError(InputError):
    """Ids that were made up for documents, and that others have given to other ones since."""


class NoDocumentsError(InputError):
    """There is nothing to add."""


@dataclass(frozen=True)
class Addition:
    """Documents to add, of a whole addition or of one batch, with their origins.

    Once they are read, `missing` receives the store, and returns the first rows of documents to
    delete in the same commit. With it, the documents to add may be empty.
    """

    documents: Iterable[Document]
    columns: Sequence[Mapping[str, str]] = ()  # of each source, name -> DuckDB type; or by values
    vectors: DocumentVectors | None = None  # one for each document; by default the encoder's
    known_origins: Mapping[str, str] = field(default_factory=dict)  # see `SourceIds`
    origins: Mapping[str, str] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
    missing: Missing | None = None
    first_row: int = 0  # of the first batch
    leave_out: Callable[[Document, Exception], bool] | None = None  # notes a file's document

    def origins_after(self, now: Mapping[str, str]) -> dict[str, str]:
        """Return `State.origins` after this addition, given the present ones, `now`.

        Raises `ChangedOriginsError` if others have chosen the same ids for other files meanwhile.
        """
        # Add the origins of this addition, unless others use their prefixes for other places.
        before = self.known_origins
        origins = dict(now)
        for prefix, place in self.origins.items():
            if now.get(prefix) not in (place, before.get(prefix)):
                raise ChangedOriginsError(
                    f"ids that begin with {prefix!r}: of other files meanwhile; expected other ids"
                )
            if before.get(prefix) != place:
                origins[prefix] = place

        # Drop origins of what became part of a folder.
        for prefix in before.keys() - self.origins.keys():
            if now.get(prefix) == before[prefix]:
                del origins[prefix]
        return origins


def check_document_vectors(vectors: DocumentVectors, dim: int) -> None:
    """Raise `InputError` unless vectors have `dim` dimensions and finite values."""
    if vectors.dim != dim:
        reduced = " (`slimdex export --vectors full` writes these)" * (vectors.dim < dim)
        raise InputError(
            f"{vectors.name}: {vectors.dim} dimensions; expected {dim}, as the encoder has{reduced}"
            f"; for others, create an index with GivenEncoder({vectors.dim})"
        )
    check_vectors(vectors)
