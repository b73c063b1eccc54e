"""Staging: documents are validated, written to a draft that readers don't see, and cut.

Documents longer than a passage are cut before they are encoded. Most texts are short: those with
few bytes are skipped, and only the others' tokens are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows, batches, without
from slimdex.indexes.errors import InputError, shortened
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.search.reduced_index import NO_ROWS
from slimdex.indexes.unicode_text import check_unicode

from ..documents import Document, check_columns, content, id_text
from ..encoders.base import CountingEncoder, Encoder
from ..passages import LONGEST_UNIT, Count, Passage, divided
from ..sources.given_vectors import ChosenVectors, GivenVectors, check_vectors
from ..sources.read_share import ReadShare
from ..store.change import Change
from ..store.document_store import DocumentStore
from ..store.passages import Cut, DocumentRows, part_fault
from .encoded_texts import KeptVectors

INSERTED, INSERTED_CHARACTERS = 1024, 1 << 24
"""Documents, and their characters, written at a time."""
INSERTED_VALUES = 1 << 20
"""Values of metadata written at a time."""
SURE = 3 / 4
"""Bytes per token of a passage that are always safe: no tokenizer makes more tokens than bytes, and
special tokens and a prompt take the rest."""
READ_AT_ONCE = 1024


Missing = Callable[[DocumentStore, int], Rows]
"""Find the documents to delete: see `Addition`."""


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
    """Documents written to a draft."""

    first: int  # their rows are first .. stop - 1
    stop: int
    unchanged: int  # number of documents skipped as identical to existing ones
    gone: Rows  # first rows of live documents to delete with the addition's commit
    moved: int  # number of these that are added under another id
    vectors: GivenVectors | None = None  # given ones

    @property
    def rows(self) -> slice:
        """Their rows."""
        return slice(self.first, self.stop)


class NoDocumentsError(InputError):
    """There is nothing to add."""


@dataclass(frozen=True)
class Addition:
    """Documents to add, of a whole addition or of one batch, with their origins.

    Once they are staged, `missing` receives the store and the first row of these documents, and
    returns the first rows of documents to delete in the same commit. With it, documents to add are
    optional.
    """

    documents: Iterable[Document]
    columns: Sequence[Mapping[str, str]] = ()  # of each source, name -> DuckDB type; or by values
    vectors: GivenVectors | None = None  # one for each document; by default the encoder's
    known_origins: Mapping[str, str] = field(default_factory=dict)  # see `SourceIds`
    origins: Mapping[str, str] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
    missing: Missing | None = None
    kept: KeptVectors | None = None  # of documents that may turn out to be moved
    first_row: int | None = None  # of the first batch, if there are several
    read_share: Callable[[], ReadShare | None] = lambda: None  # None if unknown
    withdraws: bool = True  # whether bad input undoes the batches before it


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
        raise NoDocumentsError("no documents; expected at least one")
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
    for before, now in addition.moved.items():
        store.move_place(before, now)
    gone = missing(store, first) if missing else NO_ROWS
    moved = store.count_moved(addition.first_row or first, gone)
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
    """The files of made-up ids with those of an addition, without what it includes otherwise."""
    before, origins = addition.known_origins, dict(now)
    for prefix, place in addition.origins.items():
        if now.get(prefix) not in (place, before.get(prefix)):
            raise ChangedOriginsError(
                f"ids that begin with {prefix!r}: of other files meanwhile; expected other ids"
            )
        if before.get(prefix) != place:
            origins[prefix] = place
    for prefix in before.keys() - addition.origins.keys():
        if now.get(prefix) == before[prefix]:
            del origins[prefix]
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
    stored = change.base.index.vectors  # mapped: others may have removed the file
    same: NDArray[np.bool_] = change.document_rows().counts_of(documents) == 1
    for part in batches(len(documents)):
        same[part] &= stored.holds(documents[part], vectors.rows(part.start, part.stop))
    return same


def _some(documents: Iterator[Document]) -> list[Document]:
    """The next documents, limited in number and size."""
    batch, characters, values = list[Document](), 0, 0
    for document in documents:
        batch.append(document)
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
        start = part.lines[-1][0] if part.lines else part.start


def cut_staged(change: Change, first: int, staged: int, count: Count | None) -> int:
    """Cut the documents of the rows first .. staged, so far one row each, if the index cuts texts.

    `count` counts tokens as the encoder does; None if no text is to be cut. Returns the new value
    of `staged`: rows are renumbered.
    """
    store, tokens = change.store, change.state.passages
    long_documents: list[tuple[int, int]] = []  # new first row, number of rows
    more, has_parts = 0, False
    for part in batches(staged, READ_AT_ONCE, first):
        cuts = dict[int, Cut]()
        parts = store.uncut(part.start, part.stop)
        has_parts |= bool(parts)
        long = dict[int, tuple[str, str]]()
        if count is not None and tokens is not None:
            longer = store.longer_texts(part.start, part.stop, int(SURE * tokens))
            long = _long({row: (title, text) for row, title, text in longer}, tokens, count)
        short = sorted(parts.keys() - long.keys())
        whole = store.whole_passages(short) if short else {}
        for row in sorted(parts.keys() | long.keys()):
            document_parts = parts.get(row, ())
            if row in long and count is not None and tokens is not None:
                passages = divided(*long[row], document_parts, count, tokens)
                progress("cutting", row + 1 - first, staged - first)
            else:
                passages = [whole[row]]
            cuts[row + more] = Cut(passages, document_parts)
            if len(passages) > 1:
                long_documents.append((row + more, len(passages)))
                more += len(passages) - 1
        store.insert_cuts(cuts)
    if has_parts:
        store.drop_uncut()
    if long_documents:
        progress("cutting", staged - first, staged - first)
        firsts, counts = np.array(long_documents, dtype=np.int64).T
        store.make_room(DocumentRows(firsts, counts))
    return staged + more


def _long(
    texts: Mapping[int, tuple[str, str]], tokens: int, count: Count
) -> dict[int, tuple[str, str]]:
    """Return the titles and texts with more than this number of tokens."""
    long = {i: each for i, each in texts.items() if len(each[1]) > LONGEST_UNIT * tokens}
    rest = {i: content(*each) for i, each in texts.items() if i not in long}
    counts = count([*rest.values()]) if rest else ()
    return long | {i: texts[i] for i, n in zip(rest, counts, strict=True) if n > tokens}


def contents_of(documents: Sequence[Document], tokens: int | None, count: Count) -> list[str]:
    """Texts to encode of documents that are cut into passages of so many tokens; None for none."""
    contents, long = list[str](), dict[int, tuple[str, str]]()
    if tokens is not None:
        texts = {i: (document.title, document.text) for i, document in enumerate(documents)}
        sizes = {i: len(content(*each).encode(errors="replace")) for i, each in texts.items()}
        long = _long({i: texts[i] for i in texts if sizes[i] > SURE * tokens}, tokens, count)
    for i, document in enumerate(documents):
        title, text = document.title, document.text
        if i in long and tokens is not None:
            cut = Cut(divided(title, text, document.parts, count, tokens))
            contents += cut.contents(text)
        elif document.parts:
            contents += Cut([Passage(0, len(text), title)]).contents(text)
        else:
            contents.append(content(title, text))
    return contents


def counter(encoder: Encoder) -> Count:
    """The encoder's count of tokens; raises `InputError` if it can't count them."""
    if not isinstance(encoder, CountingEncoder):
        raise InputError(
            f"encoder {type(encoder).__name__} can't count tokens, by which this index cuts texts; "
            "expected one with token_counts(texts)"
        )
    return encoder.token_counts
