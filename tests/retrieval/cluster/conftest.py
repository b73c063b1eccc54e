"""What tests of pushing share: an index with long texts and columns, and one embedded server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.cluster.milvus_server import Server
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from tests.encoders import ReadingEncoder

COUNT = 150


def document(i: int, words: str = "") -> Document:
    """Every third has several passages, every fifth no year."""
    text = f"word{i} word{i % 17} word{i % 5} {words} text."
    metadata = {
        "n": i,
        "year": None if i % 5 == 0 else 1990 + i % 30,
        "day": date(2024, 1, 1 + i % 28),
        "price": i / 8,
        "author": f'{"Mac" if i % 3 else "O"}"{i}',
        "tags": [f"t{i % 3}"],
    }
    return Document(f"d{i}", " ".join([text] * (4 if i % 3 == 0 else 1)), f"Title {i}", metadata)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index that tests copy."""
    path = tmp_path_factory.mktemp("pushed") / "notes.index"
    settings = Settings(k=24, kind="sq8", candidates=60)
    with Collection.create(path, ReadingEncoder(), settings) as collection:
        collection.add([document(i) for i in range(COUNT)])
        collection.delete(["d7", "d9"])
        collection.index_lexical()
    return path


@pytest.fixture
def index(built: Path, tmp_path: Path) -> Path:
    path = tmp_path / "notes.index"
    shutil.copytree(built, path)
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(str(tmp_path_factory.mktemp("milvus") / "lite.db")) as server:
        yield server


@pytest.fixture
def empty(server: Server) -> Server:
    """The server without what earlier tests left."""
    for alias in ("notes_index", "fresh"):
        if server.collection_of(alias) not in (None, alias):
            server.ask("drop_alias", alias)
    for name in server.ask("list_collections"):
        server.ask("drop_collection", name)
    return server
