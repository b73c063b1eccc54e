"""Collection: documents in, hits out, and the commit protocol that keeps them safe.

A folder holds ``catalog.duckdb``, the encoder's vectors and files derived from them. Every
change goes the same way: 1. append or write files and fsync them; 2. one DuckDB transaction
makes them the truth; 3. remove what is no longer named. A crash before 2 leaves the old state,
after 2 the new one.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from indexes.arrays import Matrix, Rows, as_matrix, batches
from indexes.errors import CorruptError, InputError
from indexes.moments import Moments
from indexes.progress import Progress, silent
from indexes.reduced_index import ReducedIndex
from indexes.settings import Settings
from indexes.vector_file import BLOCK_BYTES, VectorFile

from .derived import encode_rows, fit, load_index, save_codes
from .documents import Document, Hit
from .encoder import Encoder, TransformerEncoder, encoder_from_spec
from .files import publish, sync_folder
from .state import State
from .store import DocumentStore

CATALOG = "catalog.duckdb"
WINDOW = 1024
"""Documents encoded between two commits: what a kill can cost."""
STEP_CHARACTERS = 16_384
"""Characters given to the encoder at a time: how often progress is reported."""
INSERTED = 1024
"""Documents written to the catalog at a time."""
OUR_FILES = re.compile(
    r"(vectors|moments|reducer|rescorer|norms|codes)-\d{6}\.(f16|f32|safetensors|faiss)(\.tmp)?"
)


@dataclass(frozen=True)
class Added:
    """What an addition did: documents added, how many of them took the place of an older one."""

    documents: int
    replaced: int
    notes: list[str]


class Collection:
    """Documents that can be searched by meaning.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "notes.index"
    >>> notes = Collection.create(folder)
    >>> _ = notes.add([Document("1", "The cat sat on the mat."), Document("2", "Stocks fell.")])
    >>> [hit.id for hit in notes.search("a pet on a rug", k=1)[0]]
    ['1']
    >>> notes.close()
    """

    def __init__(self, path: Path, store: DocumentStore, encoder: Encoder | None) -> None:
        self.path, self._store, self._encoder = path, store, encoder
        self._state = store.state()
        self._index: ReducedIndex | None = None
        self._saved_rows = 0
        self._deleted: Rows | None = None

    @classmethod
    def create(
        cls,
        path: str | Path,
        encoder: Encoder | None = None,
        settings: Settings | None = None,
    ) -> Collection:
        """A new, empty collection in a folder that does not exist yet.

        Raises
        ------
        InputError
            If the folder exists, or the settings can't suit the encoder.
        """
        path = Path(path)
        if path.exists():
            raise InputError(f"{path} exists; expected a new folder")
        encoder = encoder or TransformerEncoder()
        requested = (settings or Settings()).checked(encoder.dim)
        path.mkdir(parents=True)
        try:
            state = State(encoder=encoder.spec(), dim=encoder.dim, requested=requested)
            store = DocumentStore.create(path / CATALOG, state)
            sync_folder(path)
        except BaseException:
            shutil.rmtree(path)
            raise
        return cls(path, store, encoder)

    @classmethod
    def open(
        cls, path: str | Path, encoder: Encoder | None = None, *, read_only: bool = False
    ) -> Collection:
        """An existing collection; the encoder is loaded when it is first needed.

        Many processes may read at a time, or one may write.

        Raises
        ------
        InputError
            If there is none, another process is writing, or the encoder is not the one that the
            collection was built with.
        CorruptError
            If the catalog is damaged.
        """
        path = Path(path)
        if not (path / CATALOG).is_file():
            raise InputError(f"{path}: no slimdex index there (no {CATALOG})")
        store = DocumentStore.open(path / CATALOG, read_only=read_only)
        collection = cls(path, store, encoder)
        expected = collection._state.encoder
        if encoder is not None and encoder.spec() != expected:
            store.close()
            raise InputError(f"encoder {encoder.spec()}; this index was built with {expected}")
        if not read_only:
            collection._remove_strays()
        return collection

    def close(self) -> None:
        """Release the catalog for other processes."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self._state.rows - len(self.deleted)

    @property
    def state(self) -> State:
        """What is committed."""
        return self._state

    @property
    def store(self) -> DocumentStore:
        """The catalog."""
        return self._store

    @property
    def encoder(self) -> Encoder:
        """The encoder that the collection was built with."""
        if self._encoder is None:
            self._encoder = encoder_from_spec(self._state.encoder)
        return self._encoder

    @property
    def index(self) -> ReducedIndex:
        """The vectors' index; raises `InputError` while there are no documents."""
        if self._index is None:
            if self._state.settings is None:
                unfinished = "; an unfinished build: run it again" if self._state.source else ""
                raise InputError(f"{self.path} holds no documents yet{unfinished}")
            self._index = load_index(self.path, self._state, self.vectors())
            self._saved_rows = len(self._index)
        return self._index

    @property
    def deleted(self) -> Rows:
        """Rows of deleted documents, in order."""
        if self._deleted is None:
            rows = self._store.deleted_rows()
            self._deleted = rows[rows < self._state.rows]
        return self._deleted

    def vectors(self, rows: int | None = None) -> VectorFile:
        """The encoder's vectors on disk, those of the committed rows unless told otherwise."""
        rows = self._state.rows if rows is None else rows
        return VectorFile(self.path / self._state.vectors, self._state.dim, rows)

    def search(
        self, queries: str | Sequence[str], k: int = 10, where: str | None = None
    ) -> list[list[Hit]]:
        """The k nearest documents of each query, best first.

        Parameters
        ----------
        queries : one text or several.
        where : a DuckDB expression on the documents' columns; the search among the documents
            that it holds for is exact.
        """
        texts = [queries] if isinstance(queries, str) else list(queries)
        scores, rows = self.search_vectors(self.encoder.encode(texts), k, where)
        documents = self._store.documents(sorted({int(row) for row in rows.flat if row >= 0}))
        return [
            [_hit(documents[int(row)], score) for score, row in zip(s, r, strict=True) if row >= 0]
            for s, r in zip(scores, rows, strict=True)
        ]

    def search_vectors(
        self, queries: Matrix, k: int = 10, where: str | None = None
    ) -> tuple[Matrix, Rows]:
        """Scores and rows (q, k) for encoded queries (q, d), padded with -inf and -1."""
        if k < 1:
            raise InputError(f"k={k}; expected 1 or more results")
        allowed = None if where is None else self._store.rows_where(where)
        return self.index.search(queries, k, rows=allowed, exclude=self.deleted)

    def add(
        self,
        documents: Iterable[Document],
        *,
        columns: Mapping[str, str] | None = None,
        source: str = "",
        progress: Progress = silent,
    ) -> Added:
        """Add documents; one with the id of an older one takes its place.

        Either all of them are added or none is seen. What was encoded before an interruption is
        kept: see `resume`.

        Parameters
        ----------
        columns : DuckDB types of metadata columns; others are typed by their values.
        source : a fingerprint of where the documents come from, for `resume`.

        Raises
        ------
        InputError
            If there are no documents, an id stands twice, or a value can't be stored.
        """
        self._discard_pending()
        self._stage(documents, columns or {}, source)
        return self.resume(progress)

    def request(self, settings: Settings) -> None:
        """Ask for other settings while no document is in yet; later on, `reduce` does it."""
        if self._state.settings is not None:
            raise InputError(f"{self.path} holds documents; expected an unfinished build")
        state = replace(self._state, requested=settings.checked(self._state.dim))
        if state.unfinished:
            _check_rank(state)
        self._commit(state)

    def resume(self, progress: Progress = silent) -> Added:
        """Finish an addition that was interrupted, from where its vectors end."""
        if not self._state.unfinished:
            raise InputError(f"{self.path}: nothing to resume; expected an unfinished addition")
        self._encode_pending(progress)
        return self._commit_pending(progress)

    def delete(self, ids: Sequence[str] | None = None, *, where: str | None = None) -> int:
        """Delete documents by id or by a condition; returns how many.

        Raises
        ------
        InputError
            If an id is unknown (then none is deleted) or the condition is no expression.
        """
        if (ids is None) == (where is None):
            raise InputError("delete: expected either ids or a condition")
        store = self._store
        rows = store.rows_where(where) if where is not None else store.rows_of(list(ids or []))
        if not len(rows):
            return 0
        moments = self.moments()
        vectors = self.vectors()
        moments.subtract(self._moments_of(vectors, rows))
        state = self._with_moments(replace(self._state, generation=self._next()), moments)
        with store.transaction():
            store.delete_rows(rows)
            store.set_state(state)
        self._adopt(state)
        return len(rows)

    def reduce(self, settings: Settings, *, progress: Progress = silent) -> list[str]:
        """Reduce the vectors anew, without encoding; returns what the user should know."""
        self._discard_pending()
        if not len(self):
            raise InputError(f"{self.path} holds no documents; expected some to fit a reducer on")
        requested = settings.checked(self._state.dim)
        moments = self.moments()
        fitted, notes = requested.fitted(moments)
        state = replace(self._state, requested=requested, generation=self._next())
        state = fit(self.path, state, moments, fitted)
        index, state = encode_rows(self.path, state, self.vectors(), progress)
        self._commit(state, index)
        return notes

    def moments(self) -> Moments:
        """The moments of the live documents' vectors."""
        record = self._state.files.get("moments")
        if record is None:
            return Moments(self._state.dim)
        record.check(self.path)
        return Moments.load(self.path / record.name)

    def rebuild(self, progress: Progress = silent) -> list[str]:
        """Make the derived files anew; the reducer and the metric only if they are at fault.

        Returns what the user should know.
        """
        settings = self._state.settings
        if settings is None:
            return []
        vectors, notes = self.vectors(), list[str]()
        live = np.setdiff1d(np.arange(self._state.rows), self.deleted)
        moments = self._moments_of(vectors, live)
        state = replace(self._state, generation=self._next())
        if not self._fitted_files_are_whole():
            if moments.n:
                settings, notes = state.requested.fitted(moments)
            everything = self._moments_of(vectors, np.arange(state.rows))
            state = fit(self.path, state, moments if moments.n else everything, settings)
        index, state = encode_rows(self.path, state, vectors, progress)
        self._commit(self._with_moments(state, moments), index)
        return notes

    # The commit protocol.

    def _stage(
        self, documents: Iterable[Document], columns: Mapping[str, str], source: str
    ) -> None:
        """Write documents to the catalog, unseen by readers: bad input ends here, early."""
        first = staged = self._state.rows
        iterator = iter(documents)
        with self._store.transaction():
            self._store.ensure_columns(columns)
            while batch := list(islice(iterator, INSERTED)):
                self._store.insert(staged, [_checked(d) for d in batch])
                staged += len(batch)
            if staged == first:
                raise InputError("no documents; expected at least one")
            if (twice := self._store.duplicate_id(first)) is not None:
                raise InputError(f"id {twice!r} stands twice; expected each id once")
            state = replace(self._state, staged=staged, encoded=first, source=source)
            _check_rank(state)
            self._store.set_state(state)
        self._state = state

    def _encode_pending(self, progress: Progress) -> None:
        """Vectors of the staged documents, a window and a commit at a time."""
        state = self._state
        vectors = self.vectors(state.encoded)
        for window in batches(state.staged, WINDOW, state.encoded):
            contents = self._store.contents(window.start, window.stop)
            encoded = np.empty((len(contents), state.dim), dtype=np.float32)
            for step in _steps(contents):
                vectors_of_step = self.encoder.encode([contents[i] for i in step])
                encoded[step] = as_matrix(vectors_of_step, dim=state.dim, name="encoder")
                done = window.start - state.rows + step.done
                progress("encoding", done, state.staged - state.rows)
            first_block = vectors.nbytes // BLOCK_BYTES
            vectors.append(encoded)
            sync_folder(self.path)
            with self._store.transaction():
                blocks = list(vectors.blocks(first_block))
                self._store.set_blocks(state.vectors, first_block, blocks)
                self._store.set_state(replace(self._state, encoded=len(vectors)))
            self._state = replace(self._state, encoded=len(vectors))

    def _commit_pending(self, progress: Progress) -> Added:
        """Bring moments, codes and norms up to date, then let readers see it all at once."""
        old, store = self._state, self._store
        vectors = self.vectors(old.staged)
        replaced = store.replaced_rows(old.rows)
        moments = self.moments()
        for chunk in vectors.scan(old.rows):
            moments.update(chunk)
        moments.subtract(self._moments_of(vectors, replaced))
        state = replace(old, rows=old.staged, source=None, generation=self._next())
        notes = list[str]()
        settings = self._outgrown(moments)
        if settings is None:
            index, self._index = self.index, None  # loaded again should the commit fail
            first_norm = index.norms.nbytes // BLOCK_BYTES if index.norms else 0
            index.vectors = vectors
            index.extend(progress)
            state = save_codes(self.path, state, index, self._saved_rows)
        else:
            fitted, notes = settings.fitted(moments)
            first_norm = 0
            state = fit(self.path, state, moments, fitted)
            index, state = encode_rows(self.path, state, vectors, progress)
        state = self._with_moments(state, moments)
        self._commit(state, index, replaced, first_norm)
        if empty := store.count_empty(old.rows):
            notes.append(f"{empty} of {old.staged - old.rows} documents have no text")
        return Added(old.staged - old.rows, len(replaced), notes)

    def _outgrown(self, moments: Moments) -> Settings | None:
        """The settings to derive anew with: at first, or when a small corpus has grown."""
        state = self._state
        if state.settings is None:
            return state.requested
        if state.settings == state.requested.resolved(state.dim):
            return None
        try:
            fitted, _ = state.requested.fitted(moments)
        except InputError:  # deletions left fewer dimensions than were asked for
            return None
        return state.requested if fitted != state.settings else None

    def _commit(
        self,
        state: State,
        index: ReducedIndex | None = None,
        replaced: Rows | None = None,
        first_norm: int = 0,
    ) -> None:
        store = self._store
        with store.transaction():
            if replaced is not None:
                store.delete_rows(replaced)
            if index is not None and index.norms is not None:
                blocks = list(index.norms.blocks(first_norm))
                store.set_blocks(index.norms.path.name, first_norm, blocks)
            store.forget_blocks(state.file_names)
            store.set_state(state)
        self._adopt(state, index)

    def _adopt(self, state: State, index: ReducedIndex | None = None) -> None:
        """What has just been committed is now the truth; drop what it no longer names."""
        codes_written = state.files.get("codes") != self._state.files.get("codes")
        self._state, self._deleted = state, None
        if index is not None:
            self._index = index
            self._saved_rows = len(index) if codes_written else self._saved_rows
        self._remove_strays()

    def _discard_pending(self) -> None:
        """Forget an addition that was not finished: nobody was told that it is there."""
        if not self._state.unfinished:
            return
        rows = self._state.rows
        state = replace(self._state, staged=rows, encoded=rows, source=None)
        with self._store.transaction():
            self._store.discard_from(rows)
            kept = self.vectors(rows)
            first = kept.nbytes // BLOCK_BYTES
            self._store.set_blocks(state.vectors, first, list(kept.blocks(first)))
            self._store.set_state(state)
        self._state = state

    def _remove_strays(self) -> None:
        """Delete files of ours that the state does not name: a crash can leave some."""
        named = self._state.file_names
        for path in self.path.iterdir():
            if OUR_FILES.fullmatch(path.name) and path.name not in named:
                path.unlink()

    def _with_moments(self, state: State, moments: Moments) -> State:
        name = f"moments-{state.generation:06d}.safetensors"
        record = publish(self.path / name, moments.save)
        return replace(state, files=state.files | {"moments": record})

    def _moments_of(self, vectors: VectorFile, rows: Rows) -> Moments:
        chunks = (vectors.take(rows[part]) for part in batches(len(rows)))
        return Moments.of(chunks, self._state.dim)

    def _fitted_files_are_whole(self) -> bool:
        try:
            for role in {"reducer", "rescorer"} & self._state.files.keys():
                self._state.files[role].check(self.path)
        except CorruptError:
            return False
        return True

    def _next(self) -> int:
        return self._state.generation + 1


class _Step(list[int]):
    """Positions in a window, and how many of the window are done after them."""

    done: int


def _steps(contents: Sequence[str]) -> Iterator[_Step]:
    """A window in parts of similar length, longest first, so that little is padding."""
    order = sorted(range(len(contents)), key=lambda i: -len(contents[i]))
    step, characters, done = _Step(), 0, 0
    for i in order:
        step.append(i)
        characters += len(contents[i]) + 1
        done += 1
        if characters >= STEP_CHARACTERS:
            step.done = done
            yield step
            step, characters = _Step(), 0
    if step:
        step.done = done
        yield step


def _check_rank(state: State) -> None:
    """Refuse a k that the number of documents alone rules out, before they are encoded."""
    k, n = state.requested.k, state.staged
    if state.settings is None and k is not None and k > n:
        raise InputError(f"k={k} exceeds the rank that {n} documents can have")


def _checked(document: Document) -> Document:
    if not isinstance(document, Document):
        raise InputError(f"{document!r}; expected a Document")
    for name in ("id", "text", "title"):
        if not isinstance(value := getattr(document, name), str):
            raise InputError(f"document {document.id!r}: {name}={value!r}; expected a str")
    return document


def _hit(document: Document, score: float) -> Hit:
    return Hit(document.id, float(score), document.text, document.title, document.metadata)


__all__ = ["Added", "Collection", "CorruptError", "InputError"]
