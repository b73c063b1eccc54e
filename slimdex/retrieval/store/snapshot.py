"""Snapshot: an immutable view of one committed state, for searches during changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError, InputError
from slimdex.indexes.arrays import Matrix, Rows, batches, contains, merge_rows, without
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.once import Once, cached_property

from ..documents import Document, passage_content
from ..lexical.code_files import CodeFile
from ..lexical.word_index import WordIndex
from .document_store import DocumentStore
from .index_files import load_index
from .manifest import Manifest
from .row_flags import changed_since
from .state import State
from .where.validation import CLOCK

if TYPE_CHECKING:
    from ..encoders.word_vectors.static_encoder import StaticEncoder

READ_AT_ONCE = 1024
MOST_CONDITIONS = 8
"""Conditions whose matches are kept until the next commit."""
MOST_CODE_FILES = 4096
"""Files of source code whose names and definitions are kept, some kilobytes each."""


def _fit_files(state: State) -> tuple[Any, ...]:
    """Files and settings that an index in memory depends on."""
    files = [state.files.get(role) for role in ("reducer", "rescorer", "codes")]
    return state.epoch, state.settings, state.vectors, state.norms, files


def _mean_files(state: State) -> tuple[Any, ...]:
    """Files that the mean of rows in the metric depends on."""
    return state.settings, state.norms, state.files.get("moments"), state.files.get("rescorer")


class Snapshot:
    """An immutable state, whose documents and index are opened on first use.

    Files that are open stay readable when later commits remove them. Opening one that has been
    removed raises `CorruptError` or `OSError`: see `Index.read`.

    Attributes
    ----------
    path : the index's folder.
    state : the committed state.
    columns : the user's columns: name -> type, of `column_types`.
    deleted : rows of deleted documents, in order.
    document_rows : which documents have several rows, and which rows these are.
    """

    def __init__(self, store: DocumentStore) -> None:
        self.store = store
        self.manifest = store.manifest
        self.path = store.path
        self.state = self.manifest.state
        self.columns = self.manifest.columns
        self.deleted = self.manifest.deleted
        self.document_rows = self.manifest.document_rows

        # Read when needed, unless an earlier snapshot has it already.
        self._loaded = Once[ReducedIndex]()
        self._words = Once[WordIndex]()
        self._table: Once[StaticEncoder] = Once()
        self._mean_rows = Once[NDArray[np.float32]]()
        self._code_files = Once[dict[int, CodeFile]]()
        self._matches = dict[str, NDArray[np.uint8]]()  # a bit for each row: whether it matches
        self._loading = RLock()

    def at_commit(self, manifest: Manifest, index: ReducedIndex | None = None) -> Snapshot:
        """Return the snapshot of a later commit, with what is in memory and still valid.

        `index` is that of the later commit, if that is in memory.
        """
        later = Snapshot(self.store.at_commit(manifest))
        old = self.state
        new = manifest.state
        with suppress(OSError, CorruptError):  # loaded when it is needed
            later._loaded.value = self._index_at(new) if index is None else index
            if later._loaded.value is not None:
                later._loaded.value.map()

        # Keep what is in memory if nothing that it depends on has changed.
        if (new.words, new.rows) == (old.words, old.rows):
            later._words = self._words
        if new.files.get("table") == old.files.get("table"):
            later._table = self._table
        if _mean_files(new) == _mean_files(old):
            later._mean_rows = self._mean_rows
        return later

    def _index_at(self, new: State) -> ReducedIndex | None:
        """The index in memory, with the rows that later commits have added.

        None if it has to be loaded again: its files have changed, or it has rows that were not
        committed.
        """
        index = self._loaded.value
        old = self.state
        if index is None or _fit_files(new) != _fit_files(old):
            return None
        if not len(index.index) <= old.encoded <= new.encoded:
            return None
        if new.encoded == old.encoded:
            return index
        return index.with_rows_of(new.vector_file(self.path), new.norm_file(self.path))

    def __len__(self) -> int:
        """Number of documents."""
        several = self.document_rows.counts
        return self.state.rows - int(several.sum()) + len(several) - self.deleted_count

    @cached_property
    def deleted_count(self) -> int:
        """Deleted documents that still take space."""
        return len(self.document_rows.first_rows(self.deleted))

    @property
    def unfinished(self) -> str:
        """A sentence while documents or vectors are missing; empty if none are."""
        state = self.state
        more = f"`slimdex encode {self.path}` goes on"
        total = state.rows - len(self.hidden)
        count = self.searchable_count
        if count < total:
            return f"{count:,} of {total:,} {self.noun} have vectors yet; {more}"
        if count and (state.fit is None or state.is_provisional):
            return f"fitted to the first {state.fit_rows:,} {self.noun}; {more}"
        if state.building:
            return f"{len(self):,} documents are in: the build goes on, or run it again"
        return ""

    def check_encoded(self) -> None:
        """Raise `InputError` if rows wait for their vectors."""
        if self.searchable_count < self.state.rows - len(self.hidden):
            raise InputError(f"{self.path}: {self.unfinished}; expected vectors of all")

    @property
    def noun(self) -> str:
        """Noun for a row."""
        return "documents" if self.document_rows.is_one_each else "passages"

    def live_documents(self) -> Rows:
        """First rows of the live documents, in order."""
        rows = without(np.arange(self.state.rows), self.deleted)
        return self.document_rows.first_rows(rows)

    @cached_property
    def hidden(self) -> Rows:
        """Rows that no search finds, in order: deleted, or without text."""
        return merge_rows(self.deleted, self.manifest.textless)

    @cached_property
    def hidden_vectors(self) -> Rows:
        """Those of the hidden rows that have vectors."""
        return self.hidden[: np.searchsorted(self.hidden, self.state.encoded)]

    @property
    def searchable_count(self) -> int:
        """Rows that a search by meaning can find."""
        return self.state.encoded - len(self.hidden_vectors)

    def searchable_rows(self) -> Rows:
        """The rows that a search by meaning can find, in order."""
        return without(np.arange(self.state.encoded), self.hidden_vectors)

    def open(self) -> Snapshot:
        """Open the documents' files, so that they stay readable when deleted; return self."""
        _ = self.store.log
        return self

    @property
    def words(self) -> WordIndex | None:
        """The lexical index, None if there is none; raises `CorruptError` if damaged."""
        if self.state.words is None:
            return None
        return self._words.get(self._open_words)

    def _open_words(self) -> WordIndex:
        """Open the lexical index, and add the last rows that it lacks, in memory."""
        records = self.store.records(self.state.lexical_rows)
        late = [(each.document.id, text) for _, each in records for text in each.contents]
        words = WordIndex.open(self.path / str(self.state.words), late)
        if faults := words.count_faults(self.state.rows):
            raise CorruptError(f"{faults[0]}; `slimdex repair {self.path}` rebuilds it")
        return words

    @property
    def table(self) -> StaticEncoder:
        """The token table, which encodes queries; raises `InputError` if there is none."""
        return self._table.get(self._load_table)

    def _load_table(self) -> StaticEncoder:
        from ..encoders.token_table import load_table  # loads readers of word vectors

        record = self.state.files.get("table")
        if record is None:
            raise InputError(
                f"{self.path} has no token table; expected one "
                f"(`slimdex reduce {self.path} --query-encoder table` fits it)"
            )
        record.check(self.path)
        return load_table(self.path / record.name, self.state.dim)

    def code_files(self, documents: Sequence[int]) -> list[CodeFile]:
        """Names and definitions of documents of source code, given by their first rows.

        The results of the last calls are remembered.
        """
        files = self._code_files.get(dict)
        missing = [row for row in documents if row not in files]
        for row, document in self.store.documents(missing).items():
            files[row] = CodeFile.of(document)
        if len(files) > MOST_CODE_FILES:
            self._code_files.value = None  # other threads may still use it
        return [files[row] for row in documents]

    @property
    def index(self) -> ReducedIndex:
        """The vectors' index, loaded at its first use; empty before the first documents."""
        with self._loading:
            return self._loaded.get(self.load)

    def load(self) -> ReducedIndex:
        """Read the index from its files, and code the rows that the file of codes lacks."""
        index = load_index(self.path, self.state)
        index.extend()
        index.map()
        return index

    def every_document(self) -> Iterator[Document]:
        """Iterate over the documents, in the order of their rows."""
        rows = self.live_documents()
        for part in batches(len(rows), READ_AT_ONCE):
            documents = self.store.documents(rows[part].tolist())
            yield from (documents[int(row)] for row in rows[part])

    def of_ids(self, ids: Sequence[str], *, vectors: bool = False) -> list[Document]:
        """Documents of these ids, in their order; raises `InputError` if an id is unknown."""
        return self.documents_at(self.store.rows_of(ids), vectors=vectors)

    def of_condition(
        self,
        where: str | None,
        limit: int | None = None,
        after: str = "",
        *,
        vectors: bool = False,
    ) -> list[Document]:
        """Documents that match a condition, in the order of their rows; or a page, by their ids."""
        is_page = limit is not None or after
        rows = self.page(where, limit, after) if is_page else self.rows_where(where)
        return self.documents_at(rows, vectors=vectors)

    def page(self, where: str | None, limit: int | None, after: str) -> Rows:
        """First rows of the first documents after an id that match a condition, ordered by id.

        Unlike a row, an id stays when documents before it are changed.
        """
        rows = self.store.rows_after(after)
        return rows[contains(self.rows_where(where), rows)][:limit]

    def documents_at(self, rows: Rows, *, vectors: bool = False) -> list[Document]:
        """Documents given by their first rows, in this order, with their vectors if `vectors`."""
        documents = self.store.documents(rows.tolist())
        if vectors and len(rows):
            firsts = np.unique(rows)
            all_rows = self.document_rows.all_rows(firsts)
            if all_rows[-1] >= self.state.encoded:
                self.check_encoded()
            # Read all vectors at once, then split them: a document has a vector for each of its
            # rows.
            X = self.index.vectors.take(all_rows)
            ends = np.cumsum(self.document_rows.counts_of(firsts))[:-1]
            for first, passage_vectors in zip(firsts.tolist(), np.split(X, ends), strict=True):
                documents[first] = replace(documents[first], vectors=passage_vectors)
        return [documents[row] for row in rows.tolist()]

    def texts(self, rows: Rows) -> list[str]:
        """Title and text of each row's passage, or of its document if that is not cut."""
        firsts = self.document_rows.documents(rows)
        documents = self.store.documents(np.unique(firsts).tolist())
        each = zip(firsts.tolist(), rows.tolist(), strict=True)
        return [passage_content(documents[first], row - first) for first, row in each]

    def vectors(self) -> VectorFile:
        """The encoder's vectors on disk."""
        return self.state.vector_file(self.path)

    def moments(self) -> Moments:
        """The moments of the live documents' vectors, without those of empty texts."""
        # The file lacks rows that were added or came back since, and counts those deleted since.
        state = self.state
        counted = state.moments_rows
        deleted, restored = changed_since(self.path, state, state.moments_deletions)
        later = without(np.arange(counted, state.encoded), self.deleted)
        added = np.append(restored[restored < counted], later)
        moments = self._load_moments().merge(self.moments_of(added))
        return moments.subtract(self.moments_of(deleted[deleted < counted]))

    def moments_of(self, rows: Rows, vectors: VectorFile | None = None) -> Moments:
        """The moments of the vectors of those of some rows (n,), in order, that have text.

        `vectors` are by default the encoder's.
        """
        vectors = self.vectors() if vectors is None else vectors
        with_text = without(rows[rows < len(vectors)], self.manifest.textless)
        parts = (vectors.take(with_text[part]) for part in batches(len(with_text), READ_AT_ONCE))
        return Moments.of(parts, vectors.dim)

    def _load_moments(self) -> Moments:
        """Load the moments from their file, which may differ by the last rows added or deleted."""
        record = self.state.files.get("moments")
        dim = self.state.dim
        if record is None:
            return Moments(dim)
        record.check(self.path)
        moments = Moments.load(self.path / record.name)
        if moments.dim != dim:
            raise CorruptError(
                f"{self.path / record.name}: {moments.dim} dimensions; expected {dim}"
            )
        return moments

    def mean_cosines(self, queries: Matrix) -> NDArray[np.float32]:
        """Approximate mean cosines (q,) of queries (q, d) with the rows of the file of moments.

        Cosines are those of the metric, or plain ones without it. See `Rescorer.mean_row`.
        """
        metric = self.index.metric
        if metric is not None:
            rescorer = metric.rescorer
        else:
            rescorer = Rescorer(None, np.zeros(self.state.dim, np.float32))
        mean_row = self._mean_rows.get(lambda: rescorer.mean_row(self._load_moments()))
        means: NDArray[np.float32] = np.vecdot(rescorer.probes(queries).vectors, mean_row)
        return means

    def rows_where(self, where: str | None) -> Rows:
        """First rows of the live documents that match a condition, in order; None matches all."""
        if where is None:
            return self.live_documents()
        return np.setdiff1d(self.documents_where(where), self.deleted, assume_unique=True)

    def documents_where(self, where: str) -> Rows:
        """First rows of the documents that match a condition, in order, including deleted ones.

        The matches of recent conditions are remembered, except for conditions that may read the
        clock, since other documents may match a moment later.
        """
        total = self.state.rows
        known = self._matches.get(where) if isinstance(where, str) else None
        if known is not None:
            return np.flatnonzero(np.unpackbits(known, count=total).view(np.bool_))
        rows = self.store.rows_where(where)
        if CLOCK.search(where):
            return rows
        if len(self._matches) >= MOST_CONDITIONS:
            self._matches.clear()
        self._matches[where] = np.packbits(np.bincount(rows, minlength=total).astype(np.bool_))
        return rows
