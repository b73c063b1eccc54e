"""Preparation: the documents of a batch are compared and cut without the writer lock.

What is prepared has no row numbers, so it stays right whatever others commit meanwhile, unless they
change the same documents, the columns or the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path

import numpy as np

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import NO_ROWS, Rows, batches

from ..documents import Document, Part
from ..index import Index
from ..sources.given_vectors import DocumentVectors
from ..store.derived_files import may_be_late, write_words
from ..store.new_documents import ColumnValues, NewDocuments, column_values
from ..store.passages import parts_written
from ..store.record import values_json
from ..store.snapshot import Snapshot
from ..store.work_folder import work_folder
from .addition import Addition, NoDocumentsError
from .addition_report import AdditionReport
from .cutting import counter, cut
from .text_vectors import StoredTexts, encode

READ_AT_ONCE = 1024


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
    """

    snapshot: Snapshot
    rows: Mapping[str, int]
    columns: Mapping[str, str]
    unchanged: Sequence[Document]
    new: Sequence[Document]
    values: Sequence[ColumnValues]
    vectors: DocumentVectors | None
    gone: Rows

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
    vectors : of their rows; None if they are encoded later.
    encoded : how many texts were encoded, and how they were read.
    words : folder of the snapshot's lexical index, extended by these documents; None if they are
        very few, or words are not indexed.
    """

    comparison: Comparison
    new: NewDocuments
    vectors: DocumentVectors | None
    encoded: AdditionReport = field(default_factory=AdditionReport)
    words: Path | None = None


def prepare(
    index: Index, addition: Addition, stack: ExitStack, *, encodes: bool = False
) -> PreparedBatch:
    """Compare the documents of a batch with those of an index, and cut them.

    Parameters
    ----------
    stack : removes the folder of the words, once they are moved.
    encodes : whether their texts are encoded, too, unless other rows wait.

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
    if not state.rows:
        has_vectors = comparison.vectors is not None
        _check_first(snapshot, documents, new, has_vectors=has_vectors)

    # Encode texts, and index words.
    prepared = PreparedBatch(comparison, new, comparison.vectors)
    if encodes and comparison.vectors is None and len(new) and not state.waits:
        prepared = _with_vectors(index, prepared)
    if len(new):
        # If others have removed the words' files, the words are indexed under the writer lock.
        with suppress(OSError, CorruptError):
            if not may_be_late(snapshot, new):
                folder = stack.enter_context(work_folder(index.path))
                return replace(prepared, words=write_words(snapshot, new, folder / "words"))
    return prepared


def _with_vectors(index: Index, prepared: PreparedBatch) -> PreparedBatch:
    """Encode the texts of new documents, except those of documents that they replace."""
    comparison = prepared.comparison
    new = prepared.new
    stored = index.read(_replaced_texts, comparison)
    ids = [id for id, _ in new.ids_and_contents()]
    encoded = encode(index, comparison.snapshot.state, ids, new.texts, stored)
    return replace(prepared, vectors=encoded.vectors, encoded=encoded.report)


def _replaced_texts(snapshot: Snapshot, comparison: Comparison) -> StoredTexts:
    """The texts of documents that are replaced or gone."""
    if snapshot.state.epoch != comparison.snapshot.state.epoch:
        return StoredTexts.of(snapshot.store, NO_ROWS)
    rows = comparison.rows
    replaced = [rows[document.id] for document in comparison.new if document.id in rows]
    documents = np.union1d(np.array(replaced, dtype=np.int64), comparison.gone)
    return StoredTexts.of(snapshot.store, snapshot.document_rows.all_rows(documents))


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


def _compare(snapshot: Snapshot, documents: Sequence[Document], addition: Addition) -> Comparison:
    """Compare documents with those of the same ids."""
    # Open the files that are needed later, so that they stay readable if others remove them.
    store = snapshot.store
    rows = store.rows_of_ids([document.id for document in documents])
    if snapshot.state.settings is not None:
        _ = snapshot.index

    # Which documents are new or changed?
    columns, values = column_values(store.columns, documents, addition.columns)
    is_new = _are_new(snapshot, documents, rows, columns, values)
    new_vectors = addition.vectors
    if new_vectors is not None:
        _mark_other_vectors(snapshot, documents, rows, is_new, new_vectors)
        if not all(is_new):
            new_vectors = new_vectors.take(np.flatnonzero(is_new))
    return Comparison(
        snapshot=snapshot,
        rows=rows,
        columns=columns,
        unchanged=[*compress(documents, np.logical_not(is_new))],
        new=[*compress(documents, is_new)],
        values=[column.select(is_new) for column in values],
        vectors=new_vectors,
        gone=addition.missing(store) if addition.missing is not None else NO_ROWS,
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
        # One that waits has none yet.
        may_be_same = snapshot.document_rows.counts_of(old_rows) == 1
        may_be_same &= old_rows < len(stored)
        is_same = np.zeros(len(old_rows), dtype=np.bool_)
        is_same[may_be_same] = stored.holds(old_rows[may_be_same], new_vectors[may_be_same])
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
