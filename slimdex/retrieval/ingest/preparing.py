"""Preparation: documents of an addition are read, cut and encoded before it takes its turn.

Few documents are kept in memory: their commit, which computes nothing that takes long, stages them,
whatever other processes have committed meanwhile. Many are staged in files of the work folder,
which the commit takes as they are unless others have changed the index; then they are staged again.
Vectors, numbers of tokens and terms are remembered by the text, and lines by their contents, not by
the row.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import IO, Any

import numpy as np

from slimdex.indexes.arrays import Rows, batches
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.workers import HERE

from ..documents import Document
from ..encoders.base import Encoder
from ..index import Index
from ..lexical.tokens import TERMS, Terms
from ..passages import Count
from ..store.change import Change
from ..store.derived import write_words
from ..store.draft import Ready, made_ready
from ..store.snapshot import Snapshot
from ..store.state import State
from ..store.work_folder import work_folder
from .encoded_texts import EncodedTexts, KeptVectors
from .encoding import WINDOW_ROWS, encode_texts, encoded, reporting_length
from .staging import Addition, Staged, contents_of, counter, stage

FEW, FEW_CHARACTERS = WINDOW_ROWS, 1 << 20
"""Most documents that are prepared in memory, and their characters: the work that a kill costs."""


class Prepared:
    """An addition whose documents are read, but can be read again, and encoded."""

    def __init__(self, index: Index, addition: Addition) -> None:
        self.addition, self._index = addition, index
        self.encoded = self.characters = 0  # texts that were encoded, and their characters
        self.seconds = 0.0  # that this took
        self.terms = TERMS  # of the lexical index; those of few documents are remembered
        self.words: Path | None = None  # those of many documents, unless others change the index
        self._ready = Ready()
        self._known: EncodedTexts | None = None
        self._count: Count = self._tokens_of
        self._begun: tuple[Change, Staged] | None = None  # many documents, before the turn

    @contextmanager
    def staged(self) -> Iterator[tuple[Change, Staged]]:
        """The change that commits the addition, which is staged; in the writers' turn."""
        index = self._index
        with index.turn():
            if self._begun and self._begun[0].base.manifest == index.snapshot.manifest:
                with index.changing(self._begun[0]):
                    yield self._begun
            else:
                self.discard()
                self.words = None
                with index.change() as change:
                    change.store.ready = self._ready
                    is_same = self._known is not None and self._known.spec == change.state.encoder
                    count = self._count if is_same else self._tokens_of
                    yield change, stage(change, self.addition, count)

    def in_memory(self, documents: Sequence[Document]) -> None:
        """Encode few documents, and remember that."""
        self._count = _remembered(self._tokens_of)
        ids = [document.id for document in documents]
        snapshot, rows = self._index.read(_looked_up, ids, self.addition.missing is not None)
        state = snapshot.state
        self._known = EncodedTexts(state.encoder, state.dim)
        if state.settings is not None:
            self._index.read(Snapshot.loaded)
        self._ready = self._index.read(_made_ready, documents)
        if self.addition.vectors is not None:
            self._find_terms(state, documents, contents_of(documents, None, self._count))
        else:
            self._encode(snapshot, self._known, documents, rows)

    def in_files(self, folder: Path) -> None:
        """Write many documents and their words to a work folder, and encode them."""
        change = self._index.begun(folder)
        with self._index.failing(change):
            encoder_of, state = self._index.encoder_of, change.state
            staged = stage(change, self.addition, lambda texts: counter(encoder_of(state))(texts))
            self._begun = change, staged
            if staged.first == staged.stop:
                return
            if self.addition.vectors is None:
                known = EncodedTexts(change.state.encoder, change.state.dim)
                encoder = self._index.encoder_of(change.state)
                kept, start = self.kept(change, staged), perf_counter()
                done = encode_texts(change, encoder, staged.rows, kept, known)
                self.encoded, self.characters = done
                self.seconds, self._known = perf_counter() - start, known
            self.words = write_words(change, folder / "words", staged.stop)

    def discard(self) -> None:
        """Discard what was staged before the turn."""
        if self._begun:
            self._begun[0].discard()
            self._begun = None

    def known_to(self, change: Change) -> EncodedTexts:
        """Texts that were encoded, if by the encoder of a change's index."""
        state = change.base.state
        if self._known is not None and self._known.spec == state.encoder:
            return self._known
        return EncodedTexts(state.encoder, state.dim)

    def kept(self, change: Change, staged: Staged) -> KeptVectors:
        """Vectors of texts of documents that are replaced, or that are or may be gone."""
        replaced = change.store.replaced_rows(change.base.state.rows)
        kept = KeptVectors.of(change.base.store, np.union1d(replaced, staged.gone))
        return kept.with_others(self.addition.kept)

    def encoder(self) -> Encoder:
        """The index's encoder."""
        return self._index.encoder

    def _tokens_of(self, texts: Sequence[str]) -> Sequence[int]:
        return counter(self.encoder())(texts)

    def _encode(
        self,
        snapshot: Snapshot,
        known: EncodedTexts,
        documents: Sequence[Document],
        rows: Mapping[str, int],
    ) -> None:
        """Encode texts, except those of documents that these replace, by id."""
        state, new = snapshot.state, changed(snapshot, documents, rows)
        texts = list[str]()
        for part in batches(len(new), WINDOW_ROWS):
            texts += contents_of(new[part], state.passages, self._count)
        if state.settings is None and texts:
            state.requested.check_count(len(texts))
        self._find_terms(state, new, texts)
        unique = list(dict.fromkeys(text for text in texts if text))
        store, replaced = snapshot.store, {rows.get(document.id, -1) for document in new}
        gone: Rows = np.array(sorted(replaced - {-1}), dtype=np.int64)
        if self.addition.missing is not None:
            gone = np.union1d(gone, self.addition.missing(store, state.rows))
        kept = KeptVectors.of(store, gone).with_others(self.addition.kept)
        unknown = np.delete(np.arange(len(unique)), kept.among(unique)[0])
        if len(unknown):
            texts = [unique[i] for i in unknown]
            encoder, did = self._index.encoder_of(state), reporting_length(texts)
            start = perf_counter()
            known.put(texts, *encoded(encoder, texts, state.dim, did))
            known.look_up_all()
            self.encoded, self.characters = len(texts), sum(map(len, texts))
            self.seconds = perf_counter() - start

    def _find_terms(
        self, state: State, documents: Sequence[Document], texts: Sequence[str]
    ) -> None:
        """Find the terms of documents and their passages' texts, if words are indexed."""
        if state.words is not None:
            self.terms = Terms.remembered()
            for document in documents:
                self.terms.of_id(document.id)
            for text in texts:
                self.terms.of_text(text)


def _looked_up(
    snapshot: Snapshot, ids: Sequence[str], reads_documents: bool
) -> tuple[Snapshot, dict[str, int]]:
    """Return the snapshot and the rows of those ids that exist; open its documents if required."""
    rows = snapshot.store.look_up(ids)
    if reads_documents or (rows and not snapshot.store.is_in_lines(rows.values())):
        snapshot.store.open()
    return snapshot, rows


def _made_ready(snapshot: Snapshot, documents: Sequence[Document]) -> Ready:
    return made_ready(documents, snapshot.columns, snapshot.store.document_file())


def _remembered(count: Count) -> Count:
    """Count the tokens of each text once."""
    known = dict[str, int]()

    def counted(texts: Sequence[str]) -> Sequence[int]:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, count(new), strict=True))
        return [known[text] for text in texts]

    return counted


def changed(
    snapshot: Snapshot, documents: Sequence[Document], row_of: Mapping[str, int]
) -> Sequence[Document]:
    """Return the documents whose text, title or parts differ from the indexed ones with their ids.

    `row_of` maps ids to rows.
    """
    new = list[Document]()
    for part in batches(len(documents), WINDOW_ROWS):
        rows = [row_of[each.id] for each in documents[part] if each.id in row_of]
        found = (snapshot.store.in_lines(rows) or snapshot.store.read(rows)).values()
        old = {each.id: (each.title, each.text, (*each.parts,)) for each in found}
        new += [
            each
            for each in documents[part]
            if old.get(each.id) != (each.title, each.text, (*each.parts,))
        ]
    return new


class _Kept:
    """Documents that are written to a temporary file when they are first read."""

    def __init__(self, folder: Path, documents: Iterable[Document]) -> None:
        self._folder, self._documents = folder, iter(documents)
        self._file: IO[bytes] | None = None

    def __iter__(self) -> Iterator[Document]:
        if self._file is not None:
            self._file.seek(0)
            with suppress(EOFError):
                while True:
                    yield from pickle.load(self._file)
            return
        self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115
        while few := list(islice(self._documents, WINDOW_ROWS)):
            yield from few
            try:
                pickle.dump(few, self._file)
            except (AttributeError, TypeError, pickle.PicklingError) as error:
                ids = f"{few[0].id!r} to {few[-1].id!r}"
                raise InputError(f"documents {ids}: {error}; expected plain values") from error

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            with suppress(OSError):  # a full disk, after the commit
                self._file.close()


def _characters(document: Any) -> int:
    text = getattr(document, "text", None)
    return len(text) if isinstance(text, str) else 0  # refused later


@contextmanager
def prepared(index: Index, addition: Addition) -> Iterator[Prepared]:
    """Read and encode the documents of a batch; its files exist until the context ends."""
    rest = iter(addition.documents)
    few = list(islice(rest, FEW + 1))
    is_short = len(few) <= FEW and sum(map(_characters, few)) <= FEW_CHARACTERS
    if is_short and index.workers is HERE:
        made = Prepared(index, replace(addition, documents=few))
        made.in_memory(few)
        yield made
        return
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder(index.path))
        documents = addition.documents
        if not isinstance(documents, list):
            documents = stack.enter_context(closing(_Kept(folder, chain(few, rest))))
        made = Prepared(index, replace(addition, documents=documents))
        made.in_files(folder)
        try:
            yield made
        finally:
            made.discard()
