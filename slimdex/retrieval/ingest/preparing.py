"""Preparation: documents of an addition are read, cut and encoded before it takes its turn.

Few documents are kept in memory: their commit, which computes nothing that takes long, writes them
to the catalog, whatever other processes have committed meanwhile. Many are written to files of the
work folder, which the commit takes as they are unless others have changed the index; then they are
written again. Vectors, numbers of tokens and terms are remembered by the text, not by the row.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.execution.progress import note, progress
from slimdex.indexes.execution.workers import HERE

from ..documents import Document
from ..encoders.base import CountingEncoder, Encoder, Lengths
from ..lexical.tokens import TERMS, Terms
from ..storage.commit_log import CommitLog
from ..storage.derived_lexical import write_words
from ..storage.work_folder import work_folder
from .encoded_texts import EncodedTexts
from .encoding import WINDOW, encode_texts, encoded_steps, measured
from .kept_vectors import digests_of
from .long_documents import contents_of
from .staging import Addition, Staged, checked_document, stage

if TYPE_CHECKING:
    from ..collection import Collection

FEW, FEW_CHARACTERS = WINDOW, 1 << 20
"""Most documents that are prepared in memory, and their characters: the work that a kill costs."""


class RememberingEncoder:
    """An encoder that encodes no text twice."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known = dict[str, tuple[Matrix, Lengths]]()

    def __getattr__(self, name: str) -> Any:
        """Limits and sizes of the encoder."""
        return getattr(self._encoder, name)

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self._encoder.dim

    def spec(self) -> dict[str, Any]:
        """Return the encoder's spec."""
        return self._encoder.spec()

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Vectors (n, dim), in the order of the texts."""
        return self.encode_measured(texts)[0]

    def encode_measured(self, texts: Sequence[str]) -> tuple[Matrix, Lengths]:
        """Return vectors (n, dim), and each text's tokens and encoded tokens, if they are known."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            vectors, lengths = measured(self._encoder, new, self.dim)
            for i, text in enumerate(new):
                self._known[text] = vectors[i], lengths[i : i + 1]
        if not texts:
            return np.empty((0, self.dim), np.float32), np.empty((0, 2), np.int64)
        known = [self._known[text] for text in texts]
        return np.stack([values for values, _ in known]), np.concatenate(
            [values for _, values in known]
        )


class RememberingCounter(RememberingEncoder):
    """The same for an encoder that counts tokens, which it does once for each text, too."""

    def __init__(self, encoder: Encoder, counter: CountingEncoder) -> None:
        super().__init__(encoder)
        self._counter, self._counts = counter, dict[str, int]()

    def token_counts(self, texts: Sequence[str]) -> Sequence[int]:
        """Count the tokens of each document."""
        new = [text for text in dict.fromkeys(texts) if text not in self._counts]
        if new:
            self._counts.update(zip(new, self._counter.token_counts(new), strict=True))
        return [self._counts[text] for text in texts]


class Prepared:
    """An addition whose documents are read and encoded.

    Attributes
    ----------
    addition : the addition, whose documents can be read again.
    terms : make the terms for the lexical index, and remember those of few documents.
    words : folder with the words of the index and of many documents, unless others have changed it.
    encoded : number of texts that were encoded to files.
    """

    def __init__(self, collection: Collection, addition: Addition) -> None:
        self.addition, self.terms, self.encoded = addition, TERMS, 0
        self._core = collection
        # Of many documents, a transaction of a commit log of its own, begun before the turn.
        self._log: CommitLog | None = None
        self._staged: Staged | None = None
        self._transaction = ExitStack()
        self._known: EncodedTexts | None = None
        self._kept: _Kept | None = None
        self.words: Path | None = None
        self._made: tuple[dict[str, Any], Encoder] | None = None

    @contextmanager
    def transaction(self) -> Iterator[tuple[CommitLog, Staged]]:
        """The transaction that commits the addition, which is staged; within the turn."""
        log = self._core.commit_log
        if self._log is not None and self._log.manifest == log.manifest:
            assert self._staged is not None
            with self._transaction:
                yield self._log, self._staged
            log.read_again()
        else:
            self._discard()
            self.words = None
            with log.transaction():
                yield log, stage(log, self.addition, lambda: self.encoder)
        if self._known is not None:
            self._known.drop_used()

    def prepare_in_memory(self, documents: Sequence[Document]) -> None:
        """Encode few documents, and remember that."""
        collection, addition = self._core, self.addition
        self._made = collection.state.encoder, self._remembering()
        documents = [checked_document(document) for document in documents]
        known = collection.store.ids.look_up([document.id for document in documents])
        if not collection.is_empty:
            collection.read(lambda snapshot: (snapshot.loaded(), snapshot.words))
        if addition.vectors is not None:
            self._find_terms(documents, contents_of(documents, None, lambda: self.encoder))
        else:
            self._encode(documents, known)

    def prepare_in(self, folder: Path) -> None:
        """Write many documents and their words to a work folder, and encode them."""
        self._kept = _Kept(folder, self.addition.documents)
        self.addition = replace(self.addition, documents=self._kept)
        self._log = log = _opened_log(self._core)
        log.drafts, log.workers = folder, self._core.commit_log.workers
        with ExitStack() as failure:
            failure.push(self._transaction)
            self._transaction.enter_context(log.transaction())
            encoder = partial(self._core.encoder_of, log.manifest.state)
            self._staged = staged = stage(log, self.addition, encoder)
            if self.addition.vectors is None and staged.first < staged.stop:
                self._known = EncodedTexts(folder, log.state.encoder, log.state.dim)
                self._known.take_over(self._core.path)
                if before := len(self._known):
                    note(f"resumed after {before:,} texts encoded before")
                self.encoded = encode_texts(log, encoder(), staged.rows, staged.gone, self._known)
            if staged.first < staged.stop:
                self.words = write_words(log, folder / "words", staged.stop)
            failure.pop_all()

    def close(self) -> None:
        """Discard what is not committed."""
        self._discard()
        if self._log is not None:
            self._log.close()
        if self._kept is not None:
            self._kept.close()

    def _discard(self) -> None:
        with suppress(_Discarded), self._transaction:
            raise _Discarded

    @property
    def known(self) -> EncodedTexts:
        """Texts that were encoded to files, by the index's encoder."""
        state = self._core.commit_log.state
        if self._known is not None and self._known.spec == state.encoder:
            return self._known
        return EncodedTexts(None, state.encoder, state.dim)

    @property
    def encoder(self) -> Encoder:
        """The index's encoder, which remembers what was prepared.

        If nothing was, or others have replaced all vectors meanwhile, it remembers nothing: an
        addition of any length takes the memory of a window.
        """
        if self._made is None or self._made[0] != self._core.state.encoder:
            return self._core.encoder
        return self._made[1]

    def _remembering(self) -> Encoder:
        encoder = self._core.encoder
        if isinstance(encoder, CountingEncoder):
            return RememberingCounter(encoder, encoder)
        return encoder if self._core.state.passages is not None else RememberingEncoder(encoder)

    def _encode(self, documents: Sequence[Document], rows: Mapping[str, int]) -> None:
        """Encode texts, except those of documents that these replace, by id."""
        changed, texts = self._changed(documents, rows), list[str]()
        tokens = self._core.state.passages
        for part in batches(len(changed), WINDOW):
            texts += contents_of(changed[part], tokens, lambda: self.encoder)
        if self._core.is_empty and texts:
            self._core.state.requested.check_count(len(texts))
        self._find_terms(changed, texts)
        unique = list(dict.fromkeys(text for text in texts if text))
        store, replaced = self._core.store, {rows.get(document.id, -1) for document in changed}
        gone: Rows = np.array(sorted(replaced - {-1}), dtype=np.int64)
        if self.addition.missing is not None:
            last = self._core.snapshot.state.rows
            gone = np.union1d(gone, self.addition.missing(store, last))
        known = set[bytes]()
        for part in batches(len(gone), WINDOW):
            known.update(digests_of(store.documents.contents_of(gone[part])))
        digests = digests_of(unique)
        new = [text for text, digest in zip(unique, digests, strict=True) if digest not in known]
        done, encoder = 0, self.encoder
        for part in batches(len(new), WINDOW):
            for places, _, _ in encoded_steps(encoder, new[part], encoder.dim):
                done += len(places)
                progress("encoding", done, len(new))

    def _find_terms(self, documents: Sequence[Document], texts: Sequence[str]) -> None:
        """Find the terms of documents and their passages' texts, if words are indexed."""
        if self._core.snapshot.state.words is not None:
            self.terms = Terms.remembered()
            for document in documents:
                self.terms.of_id(document.id)
            for text in texts:
                self.terms.of_text(text)

    def _changed(
        self, documents: Sequence[Document], row_of: Mapping[str, int]
    ) -> Sequence[Document]:
        """Documents whose text, title or parts differ from those of the same id."""
        changed = list[Document]()
        for part in batches(len(documents), WINDOW):
            rows = [row_of[each.id] for each in documents[part] if each.id in row_of]
            old = {each.id: each for each in self._core.store.documents.read(rows).values()}
            changed += [each for each in documents[part] if not _is_same(each, old.get(each.id))]
        return changed


class _Discarded(Exception):
    """Ends a transaction without a commit."""


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
        while few := list(islice(self._documents, WINDOW)):
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


def _is_same(new: Document, old: Document | None) -> bool:
    if old is None:
        return False
    return (new.title, new.text, (*new.parts,)) == (old.title, old.text, (*old.parts,))


def _characters(document: Any) -> int:
    text = getattr(document, "text", None)
    return len(text) if isinstance(text, str) else 0  # refused later


def _opened_log(collection: Collection) -> CommitLog:
    """A commit log of its own for an addition, whose documents stay readable."""
    while True:
        collection.commit_log.check_place()
        log = CommitLog(collection.path)
        try:
            log.committed.database.open()
        except (CorruptError, OSError):
            log.close()
            if log.manifest == log.committed_now():  # else others have removed its files
                raise
        except BaseException:
            log.close()
            raise
        else:
            return log


@contextmanager
def prepared(collection: Collection, addition: Addition) -> Iterator[Prepared]:
    """Read and encode the documents of an addition; files of it last until the context ends."""
    rest = iter(addition.documents)
    few = list(islice(rest, FEW + 1))
    made = Prepared(collection, replace(addition, documents=few))
    is_short = len(few) <= FEW and sum(map(_characters, few)) <= FEW_CHARACTERS
    if is_short and collection.commit_log.workers is HERE:
        made.prepare_in_memory(few)
        yield made
        return
    made.addition = replace(addition, documents=chain(few, rest))
    with work_folder(collection.path) as folder, closing(made):
        made.prepare_in(folder)
        yield made
