"""Preparation: the documents of a batch are compared and cut without the writer lock.

What is prepared has no row numbers, so it stays right whatever others commit meanwhile, unless they
change the same documents, the columns or the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import Matrix, Rows, batches

from ..documents import Document
from ..index import Index
from ..sources.given_vectors import DocumentVectors
from ..store.derived_files import may_be_late, write_words
from ..store.new_documents import NewDocuments, new_records
from ..store.record import Record
from ..store.snapshot import Snapshot
from ..store.work_folder import work_folder
from .addition import Addition
from .addition_report import AdditionReport
from .cutting import counter, cut
from .text_vectors import StoredTexts, encode

READ_AT_ONCE = 1024


@dataclass
class PreparedBatch:
    """Documents of a batch, compared with existing ones of the same ids, and ready to be committed.

    Attributes
    ----------
    snapshot : the state of the index.
    rows : id -> row of the live document that has this id already.
    columns : the user's columns, of these documents too: name -> type.
    unchanged : documents that exist, identical, with the same vectors.
    new : all other documents.
    gone : first rows of documents that the addition misses.
    vectors : of the new rows; None if they are encoded later.
    has_given_vectors : whether these were given, one for each document.
    encoded : how many texts were encoded, and how they were read.
    words : folder of the snapshot's lexical index, extended by these documents; None if they are
        very few, or words are not indexed.
    """

    snapshot: Snapshot
    rows: Mapping[str, int]
    columns: Mapping[str, str]
    unchanged: Sequence[Document]
    new: NewDocuments
    gone: Rows
    vectors: DocumentVectors | None
    has_given_vectors: bool
    encoded: AdditionReport = field(default_factory=AdditionReport)
    words: Path | None = None

    @property
    def replaced(self) -> Rows:
        """First rows of the documents that new ones replace."""
        ids = [each.id for each in self.new.documents]
        return np.array([self.rows[id] for id in ids if id in self.rows], dtype=np.int64)

    def holds_for(self, snapshot: Snapshot) -> bool:
        """Whether the comparison also holds for another snapshot.

        Columns and encoder must be unchanged, and the same ids must have the same documents.
        """
        if snapshot.manifest == self.snapshot.manifest:
            return True
        if _basis(snapshot) != _basis(self.snapshot):
            return False
        ids = [each.id for each in (*self.unchanged, *self.new.documents)]
        return snapshot.store.rows_of_ids(ids) == self.rows


def _basis(snapshot: Snapshot) -> tuple[object, ...]:
    """Everything that preparation depends on, except the documents."""
    state = snapshot.state
    return state.epoch, state.encoder, state.dim, state.passages, [*snapshot.columns.items()]


def prepare(
    index: Index, addition: Addition, stack: ExitStack, *, encodes: bool = False
) -> PreparedBatch:
    """Compare the documents of a batch with those of an index, and cut them.

    Parameters
    ----------
    stack : removes the folder of the words, once they are moved.
    encodes : whether their texts are encoded, too, unless other rows wait.

    Raises `InputError` if there are no documents, or a value can't be stored; `EncodingError` if
    the encoder fails.
    """
    documents = [*addition.documents]
    prepared = index.read(_compare, index, documents, addition)
    snapshot = prepared.snapshot
    state = snapshot.state
    new = prepared.new

    # A new index requires a text or a given vector.
    if not documents and addition.missing is None:
        raise InputError("no documents; expected at least one")
    if not state.rows:
        if prepared.vectors is None and not any(new.texts):
            omissions = addition.ids.sources.omissions() if addition.ids else []
            raise InputError("; ".join(["no document with text; expected one", *omissions]))
        state.requested.check_count(new.row_count)

    # Encode texts, and index words.
    if encodes and prepared.vectors is None and len(new) and not state.waits:
        # Texts of documents that are replaced or gone have vectors.
        documents_before = np.union1d(prepared.replaced, prepared.gone)
        rows_before = snapshot.document_rows.all_rows(documents_before)
        stored = StoredTexts.of(snapshot.store, rows_before)
        ids = [id for id, _ in new.ids_and_contents()]
        encoded = encode(index, state, ids, new.texts, stored)
        prepared.vectors = encoded.vectors
        prepared.encoded = encoded.report
    if len(new):
        # If others have removed the words' files, the words are indexed under the writer lock.
        with suppress(OSError, CorruptError):
            if not may_be_late(snapshot, new):
                folder = stack.enter_context(work_folder(index.path))
                prepared.words = write_words(snapshot, new, folder / "words")
    return prepared


def _compare(
    snapshot: Snapshot, index: Index, documents: Sequence[Document], addition: Addition
) -> PreparedBatch:
    """Compare documents with those of the same ids, and cut the new ones."""
    # Open the files that are needed later, so that they stay readable if others remove them.
    store = snapshot.open().store
    state = snapshot.state
    rows = store.rows_of_ids([document.id for document in documents])
    if state.settings is not None:
        _ = snapshot.index

    # Which documents are new or changed?
    columns, records = new_records(store.columns, documents)
    vectors = addition.vectors
    is_new = _are_new(snapshot, records, rows, vectors)
    new = [*compress(records, is_new)]
    if vectors is not None:
        vectors = vectors.take(np.flatnonzero(is_new))

    # Documents with given vectors are not cut: each has one vector.
    if vectors is None and state.passages is not None:
        tokens = cache(lambda: counter(index.encoder_of(state)))  # loads the model, once
        new = cut(
            new,
            state.passages,
            lambda texts: tokens()(texts),
            addition.ids.sources.leave_out if addition.ids else None,
        )
    return PreparedBatch(
        snapshot=snapshot,
        rows=rows,
        columns=columns,
        unchanged=[*compress(documents, np.logical_not(is_new))],
        new=NewDocuments.of(new),
        gone=addition.gone(store),
        vectors=vectors,
        has_given_vectors=vectors is not None,
    )


def _are_new(
    snapshot: Snapshot,
    records: Sequence[Record],
    rows: Mapping[str, int],
    vectors: DocumentVectors | None,
) -> NDArray[np.bool_]:
    """Whether each document is new, or its text, parts, values or given vector have changed (n,).

    `rows` maps ids to rows of live documents.
    """
    is_new = np.array([record.document.id not in rows for record in records], dtype=np.bool_)

    # Compare documents with known ids, some at a time.
    known = np.flatnonzero(~is_new)
    for part in batches(len(known), READ_AT_ONCE):
        positions = known[part]
        old_rows = [rows[records[position].document.id] for position in positions]
        stored = snapshot.store.records_of(sorted(old_rows))
        for position, row in zip(positions, old_rows, strict=True):
            is_new[position] = records[position].given != stored[row].given
        if vectors is not None:
            new_vectors = vectors.take(positions).rows(0, len(positions))
            is_new[positions] |= ~_are_stored(snapshot, np.array(old_rows), new_vectors)
    return is_new


def _are_stored(snapshot: Snapshot, rows: Rows, vectors: Matrix) -> NDArray[np.bool_]:
    """Whether documents, given by their first rows (n,), have these vectors (n, dim)."""
    # A document that was cut has several vectors, which a single given one replaces.
    # One that waits has none yet.
    stored = snapshot.vectors()
    may_be_same = (snapshot.document_rows.counts_of(rows) == 1) & (rows < len(stored))
    is_same = np.zeros(len(rows), dtype=np.bool_)
    is_same[may_be_same] = stored.holds(rows[may_be_same], vectors[may_be_same])
    return is_same
