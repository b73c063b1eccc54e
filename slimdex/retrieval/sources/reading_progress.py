"""Reading progress of objects: the base of the estimated number of documents and time left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass

from ..documents import Document


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

    def read_share(self) -> float:
        """Return the share of the documents read so far; 0 if their number is unknown."""
        total = len(self.container) if isinstance(self.container, Sized) else 0
        return self.read / total if total else 0.0
