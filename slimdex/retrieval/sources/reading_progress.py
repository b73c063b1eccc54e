"""Reading progress of sources: the base of the estimated number of documents and time left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import NamedTuple

from ..documents import Document


class ReadShare(NamedTuple):
    """Shares of the documents and of their text that have been read, each 0 to 1."""

    documents: float
    text: float


class CountedDocuments:
    """Count documents as they are read from an object in memory, such as a list or a dataframe."""

    def __init__(self, documents: Iterable[Document], container: object) -> None:
        self._documents = documents
        self._container = container
        self._read = 0

    def __iter__(self) -> Iterator[Document]:
        for document in self._documents:
            self._read += 1
            yield document

    def read_share(self) -> ReadShare | None:
        """Return the shares read so far, or None if the number of documents is unknown."""
        container = self._container
        if not isinstance(container, Sized) or not len(container):
            return None
        share = self._read / len(container)
        return ReadShare(share, share)
