"""Reading progress of sources: the base of the estimated number of documents and time left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import NamedTuple

from ..documents import Document


class ReadShare(NamedTuple):
    """Shares of the documents and of their text that have been read, each 0 to 1."""

    documents: float
    text: float


@dataclass
class CountedDocuments:
    """Count documents as they are read from an object in memory, such as a list or a dataframe."""

    documents: Iterable[Document]
    container: object
    read: int = 0

    def __iter__(self) -> Iterator[Document]:
        for document in self.documents:
            self.read += 1
            yield document

    def read_share(self) -> ReadShare | None:
        """Return the shares read so far, or None if the number of documents is unknown."""
        container = self.container
        if not isinstance(container, Sized) or not len(container):
            return None
        share = self.read / len(container)
        return ReadShare(share, share)
