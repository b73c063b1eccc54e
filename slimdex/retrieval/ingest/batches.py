"""Batches: the documents of a long addition, in parts of about ten seconds of encoding.

Each batch is committed by itself, so that searches find it while the addition goes on, and a kill
costs no more than the batch in hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.execution.workers import HERE

from ..documents import Document
from ..index import Index
from ..sources.read_share import ReadShare
from ..store.document_store import DocumentStore
from ..store.snapshot import Snapshot
from .encoded_texts import DIGEST, digests_of
from .encoding import TEXT_CHARACTERS
from .preparing import changed
from .staging import DuplicateKeyError, checked_document

SECONDS, SECONDS_IN_PROCESSES = 10.0, 60.0
"""Time that a batch should take to encode, here and in other processes: these get the encoder with
each batch."""
FIRST_CHARACTERS, FIRST_IN_PROCESSES = 1 << 17, 1 << 21
"""Characters of the first batch, while the encoder's rate is not known."""
MOST_CHARACTERS, MOST_DOCUMENTS = 1 << 25, 1 << 15
LEAST_DOCUMENTS = 2
"""Fewest documents of a batch, which some reducers need."""
GROWTH = 8
"""Most times that a batch has as many characters as the one before it."""
READ_DOCUMENTS, READ_CHARACTERS = 256, 1 << 16
"""Documents that are read and looked up at a time, and their characters."""


@dataclass(frozen=True)
class Batch:
    """Documents that are committed together: numbers first .. stop of an addition, from 0.

    A batch of all documents need not know their number.
    """

    documents: Iterable[Document]
    first: int = 0
    stop: int = 0
    characters: int = 0  # of all documents up to the last of these
    to_encode: int = 0  # characters of these that the index lacks
    is_last: bool = True

    @property
    def is_whole(self) -> bool:
        """True if there is no other batch."""
        return not self.first and self.is_last


class Batches:
    """The batches of an addition's documents.

    A document whose text the index has already takes no time, and so does not count. All documents
    are one batch if it `is_one`.
    """

    def __init__(
        self, index: Index, documents: Iterable[Document], *, is_one: bool = False
    ) -> None:
        self._index, self._documents, self._is_one = index, documents, is_one
        self._limit, self._seconds = FIRST_CHARACTERS, SECONDS
        if index.workers is not HERE:
            self._limit, self._seconds = FIRST_IN_PROCESSES, SECONDS_IN_PROCESSES
        self._seen = _Ids()
        self._read = 0  # documents, of which the last are in no batch yet
        self.characters = 0  # of these

    def took(self, characters: int, seconds: float) -> None:
        """Learn that so many characters took so many seconds to encode."""
        if characters:
            enough = int(characters * self._seconds / max(seconds, 1e-3))
            self._limit = min(max(enough, READ_CHARACTERS), GROWTH * self._limit, MOST_CHARACTERS)

    def expected(self, share: ReadShare | None) -> int:
        """Number of all documents, if this share of them was read so far; 0 if unknown."""
        return round(self._read / share.documents) if share and share.documents else 0

    def unseen(self, store: DocumentStore, documents: Rows) -> Rows:
        """Those of some documents, by their first rows, whose ids are in no batch."""
        ids = store.ids_of(documents) if len(documents) else []
        return documents[~self._seen.are_known(ids)]

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches, at least one.

        Raises `InputError` for a malformed document, and `DuplicateKeyError` if an id occurs twice;
        in an addition of one batch, `stage` does.
        """
        if self._is_one:
            yield Batch(self._documents)
            return
        filled, first, characters = _Filled(), 0, 0
        for part in self._parts():
            if self._is_full(filled):
                stop, characters = self._seen.add(filled.documents), characters + filled.characters
                new = filled.most_to_encode
                yield Batch(filled.documents, first, stop, characters, new, is_last=False)
                filled, first = _Filled(), stop
            filled.add(part)
        stop = self._seen.add(filled.documents) if first else len(filled.documents)
        characters += filled.characters
        yield Batch(filled.documents, first, stop, characters, filled.most_to_encode)

    def _is_full(self, filled: _Filled) -> bool:
        if len(filled.documents) < LEAST_DOCUMENTS:
            return False
        if filled.characters >= MOST_CHARACTERS or len(filled.documents) >= MOST_DOCUMENTS:
            return True
        if filled.most_to_encode < self._limit:
            return False
        filled.look_up(self._index)
        return filled.most_to_encode >= self._limit

    def _parts(self) -> Iterator[list[Document]]:
        """The documents, a few at a time."""
        part, characters = list[Document](), 0
        for document in self._documents:
            part.append(checked_document(document))
            self._read += 1
            self.characters += _characters(part[-1:])
            characters += len(document.text)
            if len(part) == READ_DOCUMENTS or characters >= READ_CHARACTERS:
                yield part
                part, characters = [], 0
        if part:
            yield part


class _Filled:
    """Documents of a batch that is being filled, and the characters to encode in these."""

    def __init__(self) -> None:
        self.documents = list[Document]()
        self.characters = 0
        self.most_to_encode = 0  # some of them may be in the index already
        self._looked_up = 0  # documents

    def add(self, documents: Sequence[Document]) -> None:
        characters = _characters(documents)
        self.documents += documents
        self.characters += characters
        self.most_to_encode += characters

    def look_up(self, index: Index) -> None:
        """Do not count the documents whose text the index has."""
        documents = self.documents[self._looked_up :]
        new = index.read(_changed, documents)
        self.most_to_encode -= _characters(documents) - _characters(new)
        self._looked_up = len(self.documents)


class _Ids:
    """Ids of the batches so far, as digests: 16 bytes each, practically free of collisions."""

    def __init__(self) -> None:
        self._batches = list[NDArray[np.bytes_]]()  # each sorted
        self._places = list[NDArray[np.int64]]()  # numbers of the documents
        self._count = 0

    def add(self, documents: Sequence[Document]) -> int:
        """Add the ids of a batch; return the number of ids.

        Raises `DuplicateKeyError` if one occurs twice.
        """
        digests = np.array(digests_of([each.id for each in documents]), dtype=DIGEST)
        for known, numbers in zip(self._batches, self._places, strict=True):
            places, is_known = _places_of(digests, known)
            if is_known.any():
                place = int(is_known.argmax())
                earlier = int(numbers[places[place]])
                raise DuplicateKeyError(documents[place].id, earlier, self._count + place)
        order = np.argsort(digests, kind="stable")
        ordered, numbers = digests[order], self._count + order
        if len(twice := np.flatnonzero(ordered[1:] == ordered[:-1])):
            one, other = numbers[twice[0] : twice[0] + 2].tolist()
            raise DuplicateKeyError(documents[one - self._count].id, one, other)
        self._batches.append(ordered)
        self._places.append(numbers)
        self._count += len(documents)
        return self._count

    def are_known(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the ids that some batch has (n,)."""
        digests = np.array(digests_of(ids), dtype=DIGEST)
        found = np.zeros(len(ids), dtype=np.bool_)
        for known in self._batches:
            found |= _places_of(digests, known)[1]
        return found


def _places_of(
    digests: NDArray[np.bytes_], known: NDArray[np.bytes_]
) -> tuple[Rows, NDArray[np.bool_]]:
    """Where digests (n,) would be among sorted ones (n,), and which of them are there (n,)."""
    places = np.minimum(np.searchsorted(known, digests), len(known) - 1)
    return places, known[places] == digests


def _characters(documents: Sequence[Document]) -> int:
    return sum(len(each.title) + len(each.text) + TEXT_CHARACTERS for each in documents)


def _changed(snapshot: Snapshot, documents: Sequence[Document]) -> Sequence[Document]:
    """Documents whose text, title or parts differ from those of the same id."""
    return changed(snapshot, documents, snapshot.store.look_up([each.id for each in documents]))
