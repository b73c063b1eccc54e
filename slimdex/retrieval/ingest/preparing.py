"""Preparation: documents of an addition are read, cut and encoded before it takes its turn.

Its commit then computes nothing that takes long, whatever other processes have committed meanwhile:
vectors, numbers of tokens and terms are remembered by the text, not by the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.execution.workers import HERE

from ..documents import Document
from ..encoders.adapters import space_spec
from ..encoders.base import CountingEncoder, Encoder, Lengths
from ..lexical.tokens import TERMS, Terms
from .encoding import WINDOW, encoded_steps, measured
from .kept_vectors import digests_of
from .long_documents import contents_of
from .staging import Addition, checked_document

if TYPE_CHECKING:
    from ..collection import Collection

PREPARED_DOCUMENTS = 8192
"""Most documents that are prepared; larger additions are staged and encoded a window at a time, and
resume at the last window after an interruption."""


class RememberingEncoder:
    """An encoder that encodes no text twice."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known = dict[str, tuple[Matrix, Lengths]]()

    def __getattr__(self, name: str) -> Any:
        """Limits and sizes of the encoder."""
        return getattr(self._encoder, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the encoder alone."""
        return _itself, (self._encoder,)

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
    """An addition whose documents are read and, unless they are many, encoded.

    Attributes
    ----------
    addition : the addition, to be staged in its turn.
    is_small : True if all of it is committed at once.
    terms : make the terms for the lexical index, and remember those of what is prepared.
    """

    def __init__(self, collection: Collection, addition: Addition) -> None:
        self._core = collection
        self._made: tuple[dict[str, Any], Encoder] | None = None
        self.addition, self.is_small = addition, False
        self.terms = TERMS
        # An empty index has no other writers to keep waiting and no vectors to reuse.
        if collection.is_empty or addition.documents is None:
            return
        rest = iter(addition.documents)
        first = list(islice(rest, PREPARED_DOCUMENTS + 1))
        self.addition = replace(addition, documents=chain(first, rest))
        self.is_small = len(first) <= min(PREPARED_DOCUMENTS, WINDOW)
        if len(first) > PREPARED_DOCUMENTS:
            return
        self._made = space_spec(collection.state.encoder), self._remembering()
        documents = [checked_document(document) for document in first]
        known = collection.store.ids.look_up([document.id for document in documents])
        collection.read(lambda snapshot: (snapshot.loaded(), snapshot.words))  # before the turn
        if addition.vectors is not None:
            self._find_terms(documents, contents_of(documents, None, lambda: self.encoder))
        elif collection.commit_log.workers is HERE:
            self._encode(documents, known)

    @property
    def encoder(self) -> Encoder:
        """The index's encoder, which remembers what was prepared.

        If nothing was, or others have replaced all vectors meanwhile, it remembers nothing: an
        addition of any length takes the memory of a window.
        """
        if self._made is None or self._made[0] != space_spec(self._core.state.encoder):
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
        self._find_terms(changed, texts)
        unique = list(dict.fromkeys(text for text in texts if text))
        known = set(self._known_digests([rows.get(document.id, -1) for document in changed]))
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

    def _known_digests(self, replaced: Sequence[int]) -> Iterator[bytes]:
        """Digests of the texts of documents that are replaced, by row, or deleted."""
        store, rows = self._core.store, self._core.snapshot.state.rows
        gone: Rows = np.array(sorted({*replaced} - {-1}), dtype=np.int64)
        if self.addition.missing is not None:
            gone = np.union1d(gone, self.addition.missing(rows))
        for part in batches(len(gone), WINDOW):
            yield from digests_of(store.documents.contents_of(gone[part]))


def _is_same(new: Document, old: Document | None) -> bool:
    if old is None:
        return False
    return (new.title, new.text, (*new.parts,)) == (old.title, old.text, (*old.parts,))


def _itself(encoder: Encoder) -> Encoder:
    return encoder
