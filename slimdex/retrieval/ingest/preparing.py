"""Preparation: the documents of a batch are compared, cut and encoded without the writer lock.

What is prepared has no row numbers, so it stays right whatever others commit meanwhile, unless they
change the same documents, the columns or the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from time import perf_counter

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import NO_ROWS, Matrix, Rows, batches

from ..documents import Document, Part
from ..index import Index
from ..lexical.tokens import TERMS, Terms
from ..sources.given_vectors import DocumentVectors
from ..store.derived_files import write_words
from ..store.new_documents import ColumnValues, NewDocuments, column_values
from ..store.passages import parts_written
from ..store.readings import PartlyRead
from ..store.record import values_json
from ..store.snapshot import Snapshot
from ..store.state import State
from .addition import Addition, NoDocumentsError
from .cutting import counter, cut
from .encoding import encode_texts
from .text_vectors import StoredTexts, TextVectors

READ_AT_ONCE = 1024
MOST_FEW = 1024
MOST_FEW_CHARACTERS = 1 << 20
"""Most documents, and most characters, whose words are indexed under the writer lock, which is
quick; the words of more are indexed beforehand."""


@dataclass(frozen=True)
class Comparison:
    """Documents of a batch, compared with those of the same ids in an index.

    Attributes
    ----------
    snapshot : the state of the index.
    rows : id -> row of the live document that has this id already.
    columns : the user's columns, of these documents too: name -> type.
    unchanged : documents that exist, identical, with the same vectors.
    new : all other documents.
    values : values of the new documents' columns.
    vectors : the given vector of each new document; None if the encoder makes them.
    gone : first rows of documents that the addition misses.
    stored_texts : texts of documents that are replaced or gone; None if vectors are given.
    """

    snapshot: Snapshot
    rows: Mapping[str, int]
    columns: Mapping[str, str]
    unchanged: Sequence[Document]
    new: Sequence[Document]
    values: Sequence[ColumnValues]
    vectors: DocumentVectors | None
    gone: Rows
    stored_texts: StoredTexts | None

    def holds_for(self, snapshot: Snapshot) -> bool:
        """Whether this comparison also holds for another snapshot.

        Columns and encoder must be unchanged, and the same ids must have the same documents.
        """
        if snapshot.manifest == self.snapshot.manifest:
            return True
        if _basis(snapshot) != _basis(self.snapshot):
            return False
        ids = [document.id for document in (*self.unchanged, *self.new)]
        return snapshot.store.rows_of_ids(ids) == self.rows


def _basis(snapshot: Snapshot) -> tuple[object, ...]:
    """Everything that preparation depends on, except the documents."""
    state = snapshot.state
    return state.epoch, state.encoder, state.dim, state.passages, [*snapshot.columns.items()]


@dataclass(frozen=True)
class PreparedBatch:
    """Documents of a batch as they will be committed.

    Attributes
    ----------
    comparison : of the documents with those of the index.
    new : the new and changed ones.
    known : the vectors of their texts, unless vectors are given.
    encoded : number of texts that were encoded.
    characters, seconds : size of the last texts that were encoded, and how long that took.
    terms : makes the terms of texts, and remembers those of few documents.
    words : folder of the snapshot's lexical index, extended by these documents; None if they are
        few, or words are not indexed.
    """

    comparison: Comparison
    new: NewDocuments
    known: TextVectors
    encoded: int = 0
    characters: int = 0
    seconds: float = 0.0
    terms: Terms = TERMS
    words: Path | None = None

    def vectors_of(self, start: int, stop: int) -> Matrix:
        """Vectors of the new rows from `start` to before `stop`, counted from 0."""
        if self.comparison.vectors is not None:
            return self.comparison.vectors.rows(start, stop)
        return self.known.rows(self.new.texts[start:stop])

    def partly_read(self) -> PartlyRead:
        """New rows, counted from 0, whose texts the encoder read in part."""
        has_vectors = self.comparison.vectors is not None
        return {} if has_vectors else self.known.partly_read(self.new.texts)


def prepare(
    index: Index,
    addition: Addition,
    before: PreparedBatch | None = None,
    folder: Path | None = None,
) -> PreparedBatch:
    """Compare the documents of a batch with those of an index, cut and encode them.

    Parameters
    ----------
    before : what was prepared for an earlier state of the index, whose vectors are used.
    folder : where to write the words of many documents; None for few.

    Raises `InputError` if there are no documents, or a value fits no column; `EncodingError` if the
    encoder fails.
    """
    documents = [*addition.documents]
    if not documents and addition.missing is None:
        raise NoDocumentsError("no documents; expected at least one")

    # Compare and cut. If that fails, leave out the files that it fails for.
    try:
        comparison, new = _compare_and_cut(index, documents, addition)
    except InputError:
        if addition.vectors is not None:
            raise
        # These raise an error that is not a document's.
        _compare_and_cut(index, [], addition)
        if index.state.passages is not None:
            counter(index.encoder)([""])
        documents = [each for each in documents if _fits(index, each, addition)]
        comparison, new = _compare_and_cut(index, documents, addition)
    snapshot = comparison.snapshot
    state = snapshot.state
    has_vectors = comparison.vectors is not None
    if state.settings is None:
        _check_first(snapshot, documents, new, has_vectors=has_vectors)

    # Encode the texts whose vectors the index does not have.
    known = TextVectors(state.encoder, state.dim)
    if before is not None and before.known.encoder == state.encoder:
        known = before.known
    encoded = list[str]()
    start = perf_counter()
    if not has_vectors and new.texts:
        for stored_texts in (comparison.stored_texts, addition.stored_texts):
            if stored_texts is not None:
                index.read(stored_texts.add_vectors_to, known, new.texts)
        encoded = _encode_unknown(index, state, known, new)
    seconds = perf_counter() - start

    # Index the words of many documents, and find the terms of few.
    terms = TERMS
    words = None
    if folder is not None:
        words = write_words(snapshot, new, folder / "words")
    elif state.words is not None:
        terms = _terms_with_cache(new)

    return PreparedBatch(
        comparison=comparison,
        new=new,
        known=known,
        encoded=len(encoded) + (0 if before is None else before.encoded),
        characters=sum(map(len, encoded)),
        seconds=seconds,
        terms=terms,
        words=words,
    )


def _compare_and_cut(
    index: Index, documents: Sequence[Document], addition: Addition
) -> tuple[Comparison, NewDocuments]:
    """Compare documents with those of the index, cut the new ones and make their records."""
    comparison = index.read(_compare, documents, addition)
    state = comparison.snapshot.state

    # Documents with given vectors are not cut: each has one vector.
    tokens = None if comparison.vectors is not None else state.passages
    try:
        cuts = cut(comparison.new, tokens, lambda texts: counter(index.encoder_of(state))(texts))
    except InputError:
        raise
    except Exception as error:  # a tokenizer may raise anything
        raise InputError(f"a text can't be cut into passages: {error!r}") from error
    new = NewDocuments.of(comparison.new, cuts, comparison.columns, comparison.values)
    return comparison, new


def _fits(index: Index, document: Document, addition: Addition) -> bool:
    """Return whether a document can be added; if not, and it is of a file, note the file."""
    if addition.leave_out is None or "path" not in document.metadata:  # not of a file
        return True
    try:
        _compare_and_cut(index, [document], replace(addition, missing=None))
    except InputError as error:
        return not addition.leave_out(document, error)
    return True


def is_small(documents: int, characters: int) -> bool:
    """Whether so many documents, of so many characters, are indexed quickly."""
    return documents <= MOST_FEW and characters <= MOST_FEW_CHARACTERS


def _compare(snapshot: Snapshot, documents: Sequence[Document], addition: Addition) -> Comparison:
    """Compare documents with those of the same ids."""
    # Open the files that are needed later, so that they stay readable if others remove them.
    store = snapshot.store
    rows = store.rows_of_ids([document.id for document in documents])
    if snapshot.state.settings is not None:
        snapshot.load()

    # Which documents are new or changed?
    columns, values = column_values(store.columns, documents, addition.columns)
    is_new = _are_new(snapshot, documents, rows, columns, values)
    new_vectors = addition.vectors
    if new_vectors is not None:
        _mark_other_vectors(snapshot, documents, rows, is_new, new_vectors)
        if not all(is_new):
            new_vectors = new_vectors.take(np.flatnonzero(is_new))
    new = [*compress(documents, is_new)]

    # Which texts may have vectors already?
    gone = addition.missing(store) if addition.missing is not None else NO_ROWS
    stored_texts = None
    if new_vectors is None:
        replaced = [rows[document.id] for document in new if document.id in rows]
        old = np.union1d(np.array(replaced, dtype=np.int64), gone)
        stored_texts = StoredTexts.of(store, old)

    return Comparison(
        snapshot=snapshot,
        rows=rows,
        columns=columns,
        unchanged=[*compress(documents, np.logical_not(is_new))],
        new=new,
        values=[column.select(is_new) for column in values],
        vectors=new_vectors,
        gone=gone,
        stored_texts=stored_texts,
    )


def _are_new(
    snapshot: Snapshot,
    documents: Sequence[Document],
    rows: Mapping[str, int],
    columns: Mapping[str, str],
    values: Sequence[ColumnValues],
) -> list[bool]:
    """Return for each document whether its id is new, or its text, parts or values have changed.

    `rows` maps ids to rows of live documents. `columns` are the user's columns, including those of
    these documents, and `values` the values of the latter.
    """
    is_new = [document.id not in rows for document in documents]
    given = {column.name: column.given for column in values}

    # Compare documents with known ids, some at a time.
    positions = np.flatnonzero(~np.array(is_new, dtype=bool)).tolist()
    for part in batches(len(positions), READ_AT_ONCE):
        some = positions[part]
        stored = snapshot.store.records_of(sorted(rows[documents[i].id] for i in some))
        for i in some:
            document = documents[i]
            old = stored[rows[document.id]]
            new_values = [given[name][i] if name in given else None for name in columns]
            is_new[i] = _content(document, document.parts) != _content(
                old.document, old.parts
            ) or values_json(new_values) != values_json(old.values)
    return is_new


def _content(document: Document, parts: Sequence[Part]) -> tuple[str, str, str | None]:
    return document.title, document.text, parts_written(parts)


def _mark_other_vectors(
    snapshot: Snapshot,
    documents: Sequence[Document],
    rows: Mapping[str, int],
    is_new: list[bool],
    vectors: DocumentVectors,
) -> None:
    """Also mark documents in `is_new` whose given vector differs from the stored one."""
    stored = snapshot.vectors()
    unchanged = np.flatnonzero(~np.array(is_new, dtype=bool))
    for part in batches(len(unchanged), READ_AT_ONCE):
        positions = unchanged[part]
        old_rows = np.array([rows[documents[i].id] for i in positions.tolist()], dtype=np.int64)
        new_vectors = vectors.take(positions).rows(0, len(positions))

        # A document that was cut has several vectors, which a single given one replaces.
        has_one_row = snapshot.document_rows.counts_of(old_rows) == 1
        is_same = has_one_row & stored.holds(old_rows, new_vectors)
        for position in positions[~is_same].tolist():
            is_new[position] = True


def _check_first(
    snapshot: Snapshot, documents: Sequence[Document], new: NewDocuments, *, has_vectors: bool
) -> None:
    """Raise `InputError` if the first documents of an index have no text, or are too few."""
    if not documents:
        raise NoDocumentsError("no documents; expected at least one")
    has_text = any((each.title + each.text).strip() for each in documents)
    if not has_vectors and not has_text:
        count = len(documents)
        raise InputError(f"none of {count} documents has a text; expected at least one with text")
    snapshot.state.requested.check_count(snapshot.state.rows + new.row_count)


def _encode_unknown(index: Index, state: State, known: TextVectors, new: NewDocuments) -> list[str]:
    """Encode the texts that have no vector yet; return them."""
    ids = {text: id for id, text in new.ids_and_contents()}
    unknown = known.unknown(ids)
    if unknown:
        encoder = index.encoder_of(state)
        names = [ids[text] for text in unknown]
        vectors, lengths = encode_texts(encoder, unknown, names, state.dim, index.workers)
        known.add(unknown, vectors, lengths)
    return unknown


def _terms_with_cache(new: NewDocuments) -> Terms:
    """Make the terms of documents' ids and texts, and return the `Terms` that remember them."""
    terms = Terms.with_cache()
    for document in new.documents:
        terms.of_id(document.id)
    for text in new.texts:
        terms.of_text(text)
    return terms


def documents_that_differ(
    snapshot: Snapshot, documents: Sequence[Document], row_of: Mapping[str, int]
) -> Sequence[Document]:
    """Return the documents whose text, title or parts differ from the indexed ones with their ids.

    `row_of` maps ids to rows.
    """
    different = list[Document]()
    for part in batches(len(documents), READ_AT_ONCE):
        rows = [row_of[each.id] for each in documents[part] if each.id in row_of]
        stored = snapshot.store.records_of(rows).values()
        old = {each.document.id: _content(each.document, each.parts) for each in stored}
        for each in documents[part]:
            if old.get(each.id) != _content(each, each.parts):
                different.append(each)
    return different
