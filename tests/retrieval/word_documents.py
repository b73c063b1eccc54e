"""Short documents that differ, and an index of forty of them."""

from __future__ import annotations

from pathlib import Path

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from tests.encoders import WordEncoder


def documents(start: int, stop: int) -> list[Document]:
    return [Document(str(i), f"word{i} cat dog {i * 7 % 13}") for i in range(start, stop)]


def forty(path: Path) -> Path:
    """An index of the first forty documents."""
    with Collection.create(path, WordEncoder()) as collection:
        collection.add(documents(0, 40))
    return path
