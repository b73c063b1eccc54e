"""Addition: documents to add, and checks of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slimdex.errors import InputError, shorten
from slimdex.indexes.arrays import Rows
from slimdex.system.unicode_text import check_unicode

from ..documents import Document, check_columns, id_text
from ..sources.given_vectors import DocumentVectors, check_vectors
from ..store.document_store import DocumentStore
from ..store.passages import part_fault
from .text_vectors import StoredTexts

Missing = Callable[[DocumentStore], Rows]
"""Find the documents to delete: see `Addition`."""


class DuplicateKeyError(InputError):
    """An id that occurs twice in one addition, with the documents' numbers from 0."""

    def __init__(self, id: str, first: int, second: int) -> None:
        super().__init__(
            f"id {shorten(id)} occurs twice, in documents {first + 1:,} and {second + 1:,}; "
            "expected each id once"
        )


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
    stored_texts: StoredTexts | None = None  # of documents that may turn out to be moved
    first_row: int | None = None  # of the first batch, if there are several
    read_share: Callable[[], float] = lambda: 0.0  # 0 if unknown
    withdraws: bool = True  # whether bad input undoes the batches before it

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


def check_document(document: Document) -> Document:
    """Return a document with its id as text; raises `InputError` if it is malformed."""
    if not isinstance(document, Document):
        raise InputError(f"{document!r}; expected a Document")
    id = id_text(document.id)
    if id is not document.id:
        document = replace(document, id=id)
    check_columns(len(document.metadata), f"document {shorten(document.id)}")
    for name in ("text", "title"):
        value = getattr(document, name)
        if not isinstance(value, str):
            raise InputError(f"document {document.id!r}: {name}={value!r}; expected a str")
        check_unicode(value, f"document {document.id!r}, {name}")
    if document.parts:
        _check_parts(document)
    return document


def _check_parts(document: Document) -> None:
    """Raise `InputError` unless the parts of a document are valid and in order."""
    start = 0
    name = f"document {document.id!r}"
    for part in document.parts:
        if why := part_fault(part):
            raise InputError(f"{name}: {why}")
        check_unicode([*part.headings, part.anchor], f"{name}, a part")
        if not start <= part.start <= len(document.text):
            raise InputError(
                f"{name}: a part starts at {part.start}; expected {start} to {len(document.text)}"
            )
        start = part.lines[-1][0] if part.lines else part.start  # least start of the next
