"""Preparation: the documents of a batch are compared, cut and encoded before the writers' turn.

What is prepared has no row numbers, so it stays right whatever others commit meanwhile, unless they
change the same documents, the columns or the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.indexes.search.reduced_index import NO_ROWS

from ..documents import Document
from ..index import Index
from ..lexical.tokens import TERMS, Terms
from ..sources.given_vectors import ChosenVectors, GivenVectors
from ..store.derived import write_words
from ..store.lines import UnwritableError, line_of
from ..store.new_columns import ColumnValues, NewColumns, returned_values
from ..store.new_documents import NewDocuments, contents
from ..store.passages import Cut, parts_written
from ..store.readings import PartlyRead
from ..store.snapshot import Snapshot
from ..store.state import State
from .addition import Addition, NoDocumentsError
from .cutting import counter, cut
from .encoding import encode_texts
from .text_vectors import StoredTexts, TextVectors

READ_AT_ONCE = 1024
MOST_FEW, MOST_FEW_CHARACTERS = 1024, 1 << 20
"""Most documents, and characters, whose words are indexed in the turn, which takes no time."""


@dataclass(frozen=True)
class Prepared:
    """Documents of a batch as they will be committed.

    Attributes
    ----------
    snapshot : the state that they were compared with.
    rows : id -> row of the live document that has this id already.
    columns : the user's columns, of the new documents too: name -> DuckDB type.
    gone : first rows of documents that the addition misses, in the snapshot.
    unchanged : documents that exist, identical, with the same vectors.
    new : the other ones.
    texts : their texts to encode, one for each row.
    known : the vectors of these texts; `given` ones instead, one for each document.
    encoded, characters, seconds : texts that were encoded, their characters, and how long it took.
    terms : make the terms of texts, and remember those of few documents.
    words : folder of the lexical index with these documents, which follow the snapshot's.
    """

    snapshot: Snapshot
    rows: Mapping[str, int]
    columns: Mapping[str, str]
    gone: Rows
    unchanged: Sequence[Document]
    new: NewDocuments
    texts: Sequence[str]
    known: TextVectors
    given: GivenVectors | None
    encoded: int = 0
    characters: int = 0
    seconds: float = 0.0
    terms: Terms = TERMS
    words: Path | None = None

    def holds_for(self, snapshot: Snapshot) -> bool:
        """Whether documents, columns and the encoder are as they were."""
        if snapshot.manifest == self.snapshot.manifest:
            return True
        old, new = self.snapshot.state, snapshot.state
        has_same_encoder = (old.encoder, old.dim, old.passages) == (
            new.encoder,
            new.dim,
            new.passages,
        )
        has_same_columns = [*snapshot.columns.items()] == [*self.snapshot.columns.items()]
        if old.epoch != new.epoch or not (has_same_encoder and has_same_columns):
            return False
        ids = [document.id for document in (*self.unchanged, *self.new.documents)]
        return snapshot.store.known_ids(ids) == self.rows

    def vectors_of(self, start: int, stop: int) -> Matrix:
        """Vectors of the new rows start .. stop, counted from 0."""
        if self.given is not None:
            return self.given.rows(start, stop)
        return self.known.rows(self.texts[start:stop])

    def partly_read(self) -> PartlyRead:
        """New rows, counted from 0, whose texts the encoder read in part."""
        return {} if self.given is not None else self.known.partly_read(self.texts)


@dataclass(frozen=True)
class _Compared:
    """Documents of a batch, compared with those of a snapshot."""

    snapshot: Snapshot
    rows: Mapping[str, int]
    columns: Mapping[str, str]
    values: Sequence[ColumnValues]
    is_new: Sequence[bool]
    gone: Rows
    stored_texts: StoredTexts  # of documents that are replaced or gone


def prepare(
    index: Index, addition: Addition, before: Prepared | None = None, folder: Path | None = None
) -> Prepared:
    """Compare the documents of a batch with those of an index, cut and encode them.

    Parameters
    ----------
    before : what was prepared for an earlier state of the index, whose vectors are used.
    folder : where to write the words of many documents.

    Raises `InputError` if there are no documents, a value fits no column, or the given vectors are
    not one for each document; `EncodingError` if the encoder fails.
    """
    documents = [*addition.documents]
    if not documents and addition.missing is None:
        raise NoDocumentsError("no documents; expected at least one")

    # Compare: unchanged documents are left out.
    compared = index.read(_compared, documents, addition)
    snapshot, is_new = compared.snapshot, compared.is_new
    state = snapshot.state
    new = [*compress(documents, is_new)]
    given = addition.vectors
    if given is not None and len(new) < len(documents):
        given = ChosenVectors(given, np.flatnonzero(is_new))

    # Cut.
    tokens = state.passages if given is None else None
    cuts = cut(new, tokens, lambda texts: counter(index.encoder_of(state))(texts))
    texts = [text for each in zip(new, cuts, strict=True) for text in contents(*each)]
    _check_texts(snapshot, documents, texts, has_vectors=given is not None)

    # Encode the texts whose vectors the index does not have.
    known = TextVectors(state.encoder, state.dim)
    if before is not None and before.known.encoder == state.encoder:
        known = before.known
    encoded, start = list[str](), perf_counter()
    if given is None and texts:
        for stored_texts in (compared.stored_texts, addition.stored_texts):
            index.read(_add_stored_vectors, stored_texts, known, texts)
        encoded = _encode_unknown(index, state, known, new, cuts)
    seconds = perf_counter() - start

    # Make the lines and the words as they will be stored.
    values = [column.chosen(is_new) for column in compared.values]
    made = index.read(_new_documents, new, cuts, compared.columns, values)
    terms, words = TERMS, None
    if folder is not None:
        words = write_words(snapshot, made, folder / "words")
    elif is_small(len(documents), sum(map(len, texts))):
        terms = _remembered_terms(snapshot, new, texts)

    return Prepared(
        snapshot=snapshot,
        rows=compared.rows,
        columns=compared.columns,
        gone=compared.gone,
        unchanged=[*compress(documents, np.logical_not(is_new))],
        new=made,
        texts=texts,
        known=known,
        given=given,
        encoded=len(encoded),
        characters=sum(map(len, encoded)),
        seconds=seconds,
        terms=terms,
        words=words,
    )


def is_small(documents: int, characters: int) -> bool:
    """Whether so many documents, of so many characters, are indexed quickly."""
    return documents <= MOST_FEW and characters <= MOST_FEW_CHARACTERS


def _compared(snapshot: Snapshot, documents: Sequence[Document], addition: Addition) -> _Compared:
    """Compare documents with those of the same ids."""
    store = snapshot.store
    if addition.missing is not None:
        store.open()
    rows = store.look_up([document.id for document in documents])
    if rows and not store.is_in_lines(rows.values()):
        store.open()
    if snapshot.state.settings is not None:
        snapshot.loaded()
    columns = NewColumns(store, addition.columns)
    values = columns.values_of(documents)
    is_new = _are_new(snapshot, documents, rows, columns.types, values)
    gone = addition.missing(store) if addition.missing is not None else NO_ROWS
    if addition.vectors is not None:
        is_new = _with_other_vectors(snapshot, documents, rows, is_new, addition.vectors)
        stored_texts = StoredTexts.of(store, NO_ROWS)
    else:
        replaced = [rows[each.id] for each in compress(documents, is_new) if each.id in rows]
        old = np.union1d(np.array(replaced, dtype=np.int64), gone)
        stored_texts = StoredTexts.of(store, old)
    return _Compared(snapshot, rows, columns.types, values, is_new, gone, stored_texts)


def _are_new(
    snapshot: Snapshot,
    documents: Sequence[Document],
    rows: Mapping[str, int],
    columns: Mapping[str, str],
    values: Sequence[ColumnValues],
) -> list[bool]:
    """Mark the documents that differ from the live one of their id in a column or a part."""
    store, is_new = snapshot.store, [document.id not in rows for document in documents]
    if all(is_new):
        return is_new
    if any(columns[name] != type_ for name, type_ in store.columns.items()):
        store = store.with_columns(columns)
    existing = np.flatnonzero(~np.array(is_new)).tolist()
    returned = returned_values(store, values, documents)
    metadata = {column.name: column.values for column in returned}
    for part in batches(len(existing), READ_AT_ONCE):
        some = existing[part]
        stored = store.stored(sorted(rows[documents[i].id] for i in some))
        for i in some:
            document, old = documents[i], stored[rows[documents[i].id]]
            new_values = [metadata[name][i] if name in metadata else None for name in columns]
            old_values = [old.metadata.get(name) for name in columns]
            is_new[i] = (
                (document.title, document.text) != (old.title, old.text)
                or parts_written(document.parts) != parts_written(old.parts)
                or not _are_equal(new_values, old_values)
            )
    return is_new


def _are_equal(values: Sequence[Any], others: Sequence[Any]) -> bool:
    """True if values are the same, and of the same types."""
    try:
        return line_of(values) == line_of(others)
    except UnwritableError:
        return values == others


def _with_other_vectors(
    snapshot: Snapshot,
    documents: Sequence[Document],
    rows: Mapping[str, int],
    is_new: Sequence[bool],
    vectors: GivenVectors,
) -> list[bool]:
    """Mark also those documents whose given vector is not the stored one."""
    marked = [*is_new]
    same = np.flatnonzero(~np.array(is_new, dtype=bool))
    stored = snapshot.vectors()
    for part in batches(len(same), READ_AT_ONCE):
        places = same[part]
        existing = np.array([rows[documents[i].id] for i in places.tolist()], dtype=np.int64)
        given = ChosenVectors(vectors, places).rows(0, len(places))
        has_one_row = snapshot.document_rows.counts_of(existing) == 1
        is_same = has_one_row & stored.holds(existing, given)
        for place in places[~is_same].tolist():
            marked[place] = True
    return marked


def _new_documents(
    snapshot: Snapshot,
    documents: Sequence[Document],
    cuts: Sequence[Cut | None],
    columns: Mapping[str, str],
    values: Sequence[ColumnValues],
) -> NewDocuments:
    return NewDocuments.of(snapshot.store, documents, cuts, columns, values)


def _check_texts(
    snapshot: Snapshot, documents: Sequence[Document], texts: Sequence[str], *, has_vectors: bool
) -> None:
    """Raise `InputError` if the first documents of an index have no text, or are too few."""
    if snapshot.state.settings is not None:
        return
    has_text = any((each.title + each.text).strip() for each in documents)
    if documents and not has_vectors and not has_text:
        count = len(documents)
        raise InputError(f"none of {count} documents has a text; expected at least one with text")
    snapshot.state.requested.check_count(snapshot.state.rows + len(texts))


def _add_stored_vectors(
    snapshot: Snapshot, stored: StoredTexts | None, known: TextVectors, texts: Sequence[str]
) -> None:
    if stored is not None:
        stored.add_vectors_to(known, texts, snapshot)


def _encode_unknown(
    index: Index,
    state: State,
    known: TextVectors,
    documents: Sequence[Document],
    cuts: Sequence[Cut | None],
) -> list[str]:
    """Encode the texts that have no vector yet; return them."""
    ids = {
        text: document.id
        for document, each in zip(documents, cuts, strict=True)
        for text in contents(document, each)
    }
    unknown = known.unknown(ids)
    if unknown:
        encoder, names = index.encoder_of(state), [ids[text] for text in unknown]
        vectors, lengths = encode_texts(encoder, unknown, names, state.dim, index.workers)
        known.add(unknown, vectors, lengths)
    return unknown


def _remembered_terms(
    snapshot: Snapshot, documents: Sequence[Document], texts: Sequence[str]
) -> Terms:
    """Find the terms of documents and their texts, if words are indexed."""
    if snapshot.state.words is None:
        return TERMS
    terms = Terms.remembered()
    for document in documents:
        terms.of_id(document.id)
    for text in texts:
        terms.of_text(text)
    return terms


def changed(
    snapshot: Snapshot, documents: Sequence[Document], row_of: Mapping[str, int]
) -> Sequence[Document]:
    """Return the documents whose text, title or parts differ from the indexed ones with their ids.

    `row_of` maps ids to rows.
    """
    new = list[Document]()
    for part in batches(len(documents), READ_AT_ONCE):
        rows = [row_of[each.id] for each in documents[part] if each.id in row_of]
        found = snapshot.store.stored(rows).values()
        old = {each.id: (each.title, each.text, (*each.parts,)) for each in found}
        new += [
            each
            for each in documents[part]
            if old.get(each.id) != (each.title, each.text, (*each.parts,))
        ]
    return new
