"""Staging: documents are validated and written to the catalog, unseen by readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError, shortened
from slimdex.indexes.reduced_index import NO_ROWS

from ..catalog.passages_table import part_fault
from ..catalog.store import DocumentStore
from ..documents import Document, id_text
from ..encoders.base import Encoder
from ..sources.given_vectors import GivenVectors, check_vectors
from .cutting import cut_staged
from .ledger import Ledger

INSERTED, INSERTED_CHARACTERS = 1024, 1 << 24
"""Documents, and their characters, written to the catalog at a time."""
INSERTED_VALUES = 1 << 20
"""Values of metadata written at a time."""
Missing = Callable[[int], Rows]


class DuplicateKeyError(InputError):
    """An id that occurs twice in one addition, with the documents' numbers from 0."""

    def __init__(self, id: str, first: int, second: int) -> None:
        super().__init__(
            f"id {shortened(id)} stands twice, in documents {first + 1:,} and {second + 1:,}; "
            "expected each id once"
        )
        self.id, self.first, self.second = id, first, second


@dataclass(frozen=True)
class Staged:
    """Result of staging.

    Attributes
    ----------
    unchanged : documents skipped as identical to existing ones.
    gone : first rows of live documents to delete with the addition's commit.
    moved : number of these that are added under another id.
    """

    unchanged: int
    gone: Rows
    moved: int


def stage(
    ledger: Ledger,
    documents: Iterable[Document],
    columns: Sequence[Mapping[str, str]],
    source: str,
    vectors: GivenVectors | None = None,
    origins: Mapping[str, str] | None = None,
    encoder: Callable[[], Encoder] | None = None,
    *,
    missing: Missing | None = None,
) -> Staged:
    """Write documents to the catalog in one transaction, unseen by readers.

    Documents identical to existing ones are skipped, unless they come with vectors. Others longer
    than a passage are cut.

    Parameters
    ----------
    encoder : returns the index's encoder, to count tokens; None if no text is to be cut.
    missing : called after writing with the first new row; returns the rows of documents to delete.
        Then there may be no documents to add.

    Raises
    ------
    InputError
        If there are no documents, one is malformed, an id occurs twice or a value does not fit its
        column; or if the given vectors are not one per document, finite and of the right dimension.
    """
    store, first = ledger.store, ledger.state.rows
    if vectors is not None:
        _check_dimensions(vectors, ledger.state.dim)
    with ledger.transaction():
        ledger.forget_pending()
        staged = _insert(store, documents, columns, first)
        if staged == first and missing is None:
            raise InputError("no documents; expected at least one")
        if staged > first:
            _check_inserted(ledger, first, staged, vectors)
        gone = missing(first) if missing else NO_ROWS
        moved = store.origins.moved(first, gone) if len(gone) else 0
        unchanged = _leave_out_unchanged(store, first, staged) if vectors is None else 0
        staged -= unchanged
        staged = cut_staged(ledger, first, staged, encoder if vectors is None else None)
        pending = source if staged > first else None
        state = replace(ledger.state, staged=staged, encoded=first, source=pending)
        state = replace(state, given=vectors is not None)
        if origins is not None:
            state = replace(state, origins=dict(origins))
        if state.settings is None:
            state.requested.check_count(staged)
        ledger.set_state(state)
    return Staged(unchanged, gone, moved)


def _check_dimensions(vectors: GivenVectors, dim: int) -> None:
    if vectors.dim != dim:
        reduced = " (`slimdex export --vectors full` writes these)" * (vectors.dim < dim)
        raise InputError(
            f"{vectors.name}: {vectors.dim} dimensions; expected {dim}, as the encoder has{reduced}"
        )
    check_vectors(vectors)


def _insert(
    store: DocumentStore,
    documents: Iterable[Document],
    columns: Sequence[Mapping[str, str]],
    first: int,
) -> int:
    """Insert documents, so far one row each, creating columns; return the row after them."""
    for types in columns:
        store.columns.declare(types)
    staged, iterator = first, iter(documents)
    while batch := _some(iterator):
        store.documents.insert(staged, batch)
        staged += len(batch)
    return staged


def _check_inserted(ledger: Ledger, first: int, staged: int, vectors: GivenVectors | None) -> None:
    """Raise `InputError` if these documents can't be added together."""
    store, count = ledger.store, staged - first
    if vectors is None and ledger.state.settings is None and not store.documents.has_text(first):
        raise InputError(f"none of {count} documents has a text; expected at least one that has")
    if vectors is not None and len(vectors) != count:
        raise InputError(
            f"{vectors.name}: {len(vectors)} rows for {count} documents; expected one for each"
        )
    if twice := store.ids.duplicate(first):
        id, row, other = twice
        raise DuplicateKeyError(id, row - first, other - first)


def _leave_out_unchanged(store: DocumentStore, first: int, staged: int) -> int:
    """Drop the staged documents that exist unchanged; return their number."""
    unchanged, there = store.ids.unchanged(first, staged) if first else (NO_ROWS, NO_ROWS)
    if len(unchanged):
        store.origins.adopt(unchanged, there)
        store.drop_rows(unchanged, first)
    return len(unchanged)


def _some(documents: Iterator[Document]) -> list[Document]:
    """The next documents, limited in number and size."""
    batch, characters, values = list[Document](), 0, 0
    for document in documents:
        batch.append(_checked(document))
        characters += len(document.text)
        values += len(document.metadata)
        if len(batch) == INSERTED or characters > INSERTED_CHARACTERS or values > INSERTED_VALUES:
            break
    return batch


def _checked(document: Document) -> Document:
    if not isinstance(document, Document):
        raise InputError(f"{document!r}; expected a Document")
    if not isinstance(document.id, str):
        document = replace(document, id=id_text(document.id))
    for name in ("text", "title"):
        if not isinstance(value := getattr(document, name), str):
            raise InputError(f"document {document.id!r}: {name}={value!r}; expected a str")
    if document.parts:
        _check_parts(document)
    return document


def _check_parts(document: Document) -> None:
    start, name = 0, f"document {document.id!r}"
    for part in document.parts:
        if why := part_fault(part):
            raise InputError(f"{name}: {why}")
        if not start <= part.start <= len(document.text):
            raise InputError(
                f"{name}: a part starts at {part.start}; expected {start} to {len(document.text)}"
            )
        start = part.start
