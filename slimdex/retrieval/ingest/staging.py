"""Staging: documents are validated and written to a draft, unseen by readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows, batches, without
from slimdex.indexes.errors import InputError, shortened
from slimdex.indexes.search.reduced_index import NO_ROWS
from slimdex.indexes.unicode_text import check_unicode

from ..documents import Document, check_columns, id_text
from ..passages import Count
from ..sources.given_vectors import ChosenVectors, GivenVectors, check_vectors
from ..store.change import Change
from ..store.document_store import DocumentStore
from ..store.passages import part_fault
from .long_documents import cut_staged

INSERTED, INSERTED_CHARACTERS = 1024, 1 << 24
"""Documents, and their characters, written at a time."""
INSERTED_VALUES = 1 << 20
"""Values of metadata written at a time."""


class DuplicateKeyError(InputError):
    """An id that occurs twice in one addition, with the documents' numbers from 0."""

    def __init__(self, id: str, first: int, second: int) -> None:
        super().__init__(
            f"id {shortened(id)} occurs twice, in documents {first + 1:,} and {second + 1:,}; "
            "expected each id once"
        )
        self.id, self.first, self.second = id, first, second


class ChangedOriginsError(InputError):
    """Ids that were made up for documents, and that others have given to other ones since."""


@dataclass(frozen=True)
class Staged:
    """Documents written to a draft.

    Attributes
    ----------
    first, stop : their rows are those from `first` to before `stop`.
    unchanged : documents skipped as identical to existing ones.
    gone : first rows of live documents to delete with the addition's commit.
    moved : number of these that are added under another id.
    vectors : their given vectors, if any.
    """

    first: int
    stop: int
    unchanged: int
    gone: Rows
    moved: int
    vectors: GivenVectors | None = None

    @property
    def rows(self) -> slice:
        """Their rows."""
        return slice(self.first, self.stop)


@dataclass(frozen=True)
class Addition:
    """Documents to add, and what is known of them.

    Attributes
    ----------
    columns : name -> DuckDB type of metadata columns, a mapping for each source; others are typed
        by their values.
    vectors : one for each document; by default the encoder's.
    known_origins, origins : files of made-up ids when those of these documents were chosen, and
        with the files of these documents: see `made_up_ids`.
    missing : called once these documents are staged, with the store that has them and the first row
        of them; returns the first rows of the documents to delete in the same commit. With it,
        documents to add are optional.
    """

    documents: Iterable[Document]
    columns: Sequence[Mapping[str, str]] = ()
    vectors: GivenVectors | None = None
    known_origins: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    missing: Callable[[DocumentStore, int], Rows] | None = None


def stage(change: Change, addition: Addition, tokens_of: Count) -> Staged:
    """Write documents to the draft of a change.

    Documents identical to existing ones are skipped, unless they come with vectors that differ from
    the stored ones. Others longer than a passage are cut.

    `tokens_of` counts as the index's encoder does. Raises `InputError` if there are no
    documents; if one is malformed, an id occurs twice or a value does not fit its column; or if the
    given vectors are not one per document, finite and of the right dimension; `ChangedOriginsError`
    if others have chosen the same ids for other documents meanwhile.
    """
    vectors, missing = addition.vectors, addition.missing
    first, store = change.state.rows, change.store
    if vectors is not None:
        _check_dimensions(vectors, change.state.dim)
    for types in addition.columns:
        store.declare(types)
    # so far one row each; ids of a few are known to differ
    stop, is_unique, documents = first, False, iter(addition.documents)
    while batch := _some(documents):
        is_unique = stop == first and len({each.id for each in batch}) == len(batch)
        store.insert(stop, batch)
        stop += len(batch)
    count = stop - first
    if not count and missing is None:
        raise InputError("no documents; expected at least one")
    is_first = vectors is None and change.state.settings is None
    if count and is_first and not store.has_text(first):
        raise InputError(f"none of {count} documents has a text; expected at least one with text")
    if vectors is not None and count and len(vectors) != count:
        raise InputError(
            f"{vectors.name}: {len(vectors)} rows for {count} documents; expected one for each"
        )
    if count and not is_unique and (twice := store.duplicate_id(first)):
        id, row, other = twice
        raise DuplicateKeyError(id, row - first, other - first)
    gone = missing(store, first) if missing else NO_ROWS
    moved = store.count_moved(first, gone) if len(gone) else 0
    unchanged = _unchanged(change, first, stop, vectors)
    if vectors is not None and len(unchanged):
        vectors = ChosenVectors(vectors, without(np.arange(stop - first), unchanged - first))
    stop -= len(unchanged)
    stop = cut_staged(change, first, stop, tokens_of if vectors is None else None)
    state = replace(change.state, origins=_origins(change.state.origins, addition))
    if state.settings is None:
        state.requested.check_count(stop)
    change.state = state
    return Staged(first, stop, len(unchanged), gone, moved, vectors)


def _origins(now: Mapping[str, str], addition: Addition) -> dict[str, str]:
    """The files of made-up ids with those of an addition."""
    before, origins = addition.known_origins, dict(now)
    for prefix, place in addition.origins.items():
        if now.get(prefix) not in (place, before.get(prefix)):
            raise ChangedOriginsError(
                f"ids that begin with {prefix!r}: of other files meanwhile; expected other ids"
            )
        if before.get(prefix) != place:
            origins[prefix] = place
    return origins


def _check_dimensions(vectors: GivenVectors, dim: int) -> None:
    if vectors.dim != dim:
        reduced = " (`slimdex export --vectors full` writes these)" * (vectors.dim < dim)
        raise InputError(
            f"{vectors.name}: {vectors.dim} dimensions; expected {dim}, as the encoder has{reduced}"
            f"; for others, create an index with GivenEncoder({vectors.dim})"
        )
    check_vectors(vectors)


def _unchanged(change: Change, first: int, staged: int, vectors: GivenVectors | None) -> Rows:
    """Drop the staged documents that exist unchanged; return their rows, in order."""
    store = change.store
    unchanged, existing = store.unchanged_rows(first, staged) if first else (NO_ROWS, NO_ROWS)
    if vectors is not None and len(unchanged):
        same = _have_vectors(change, existing, ChosenVectors(vectors, unchanged - first))
        unchanged, existing = unchanged[same], existing[same]
    if len(unchanged):
        store.adopt_origins(unchanged, existing)
        store.drop_rows(unchanged, first)
    return unchanged


def _have_vectors(change: Change, documents: Rows, vectors: GivenVectors) -> NDArray[np.bool_]:
    """Mark documents, by their first rows, of one vector each, which is the given one as stored."""
    stored = change.vectors()
    same: NDArray[np.bool_] = change.document_rows().counts_of(documents) == 1
    for part in batches(len(documents)):
        same[part] &= stored.holds(documents[part], vectors.rows(part.start, part.stop))
    return same


def _some(documents: Iterator[Document]) -> list[Document]:
    """The next documents, limited in number and size."""
    batch, characters, values = list[Document](), 0, 0
    for document in documents:
        batch.append(checked_document(document))
        characters += len(document.text)
        values += len(document.metadata)
        if len(batch) == INSERTED or characters > INSERTED_CHARACTERS or values > INSERTED_VALUES:
            break
    return batch


def checked_document(document: Document) -> Document:
    """Return a document with its id as text; raises `InputError` if it is malformed."""
    if not isinstance(document, Document):
        raise InputError(f"{document!r}; expected a Document")
    id = id_text(document.id)
    if id is not document.id:
        document = replace(document, id=id)
    check_columns(len(document.metadata), f"document {shortened(document.id)}")
    for name in ("text", "title"):
        if not isinstance(value := getattr(document, name), str):
            raise InputError(f"document {document.id!r}: {name}={value!r}; expected a str")
        check_unicode(value, f"document {document.id!r}, {name}")
    if document.parts:
        _check_parts(document)
    return document


def _check_parts(document: Document) -> None:
    start, name = 0, f"document {document.id!r}"
    for part in document.parts:
        if why := part_fault(part):
            raise InputError(f"{name}: {why}")
        check_unicode([*part.headings, part.anchor], f"{name}, a part")
        if not start <= part.start <= len(document.text):
            raise InputError(
                f"{name}: a part starts at {part.start}; expected {start} to {len(document.text)}"
            )
        start = part.start
