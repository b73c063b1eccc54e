"""Stores that several processes change and search: vectors, texts, and a lexical index of them.

Each is used as its documentation shows for several processes. An addition is one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from slimdex.indexes.arrays import Matrix, batches
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.given_encoder import GivenEncoder

from ..machine import not_installed

BUSY_MS = 5000
"""Time that SQLite waits for other processes: the default of Python's `sqlite3`."""


class ChangedStore(Protocol):
    """A store in a folder, open in this process."""

    def add(self, ids: Sequence[str], texts: Sequence[str], vectors: Matrix) -> None:
        """Add documents in one commit; raises if the store refuses them."""
        ...

    def search(self, vector: Matrix, k: int) -> list[str]:
        """Find the ids of the k documents nearest to a vector (dim,), and read their texts."""
        ...

    def ids(self) -> set[str]:
        """Return the ids of all documents."""
        ...


class Slimdex:
    """A `Collection` with a lexical index."""

    def __init__(self, folder: Path, dim: int) -> None:
        path = folder / "documents.index"
        exists = path.exists()
        self._collection = (
            Collection.open(path) if exists else Collection.create(path, GivenEncoder(dim))
        )

    def add(self, ids: Sequence[str], texts: Sequence[str], vectors: Matrix) -> None:
        """Call `Collection.add`."""
        self._collection.add(list(map(Document, ids, texts)), vectors=vectors)

    def search(self, vector: Matrix, k: int) -> list[str]:
        """Call `Collection.search`."""
        return [hit.id for hit in self._collection.search(vector, k) if hit.text]

    def ids(self) -> set[str]:
        """Iterate over the collection."""
        return {document.id for document in self._collection}


class Sqlite:
    """SQLite with a write-ahead log, the vectors in sqlite-vec and the words in FTS5."""

    def __init__(self, folder: Path, dim: int) -> None:
        import apsw  # many Pythons are built with an sqlite3 that loads no extensions
        import sqlite_vec

        self._connection: Any = apsw.Connection(str(folder / "documents.db"))
        self._connection.set_busy_timeout(BUSY_MS)
        self._connection.enable_load_extension(True)
        self._connection.load_extension(sqlite_vec.loadable_path())
        self._connection.execute("PRAGMA journal_mode = WAL")
        columns = f"embedding float[{dim}] distance_metric=cosine"
        for sql in (
            'documents("row" INTEGER PRIMARY KEY, id TEXT UNIQUE, text)',
            f"vectors USING vec0({columns})",
            "words USING fts5(text, content='documents', content_rowid='row')",
        ):
            kind = "VIRTUAL TABLE" if "USING" in sql else "TABLE"
            self._connection.execute(f"CREATE {kind} IF NOT EXISTS {sql}")

    def add(self, ids: Sequence[str], texts: Sequence[str], vectors: Matrix) -> None:
        """Insert into the three tables, in one transaction."""
        with closing(self._connection.cursor()) as cursor, self._transaction():
            for id, text, vector in zip(ids, texts, vectors, strict=True):
                sql = 'INSERT INTO documents(id, text) VALUES (?, ?) RETURNING "row"'
                ((row,),) = list(cursor.execute(sql, (id, text)))
                sql = "INSERT INTO vectors(rowid, embedding) VALUES (?, ?)"
                cursor.execute(sql, (row, vector.tobytes()))
                cursor.execute("INSERT INTO words(rowid, text) VALUES (?, ?)", (row, text))

    def search(self, vector: Matrix, k: int) -> list[str]:
        """Scan the vectors, and join the texts."""
        sql = """WITH found AS (
            SELECT rowid, distance FROM vectors WHERE embedding MATCH ? AND k = ?
        )
        SELECT id, text FROM found JOIN documents ON "row" = found.rowid ORDER BY distance"""
        return [id for id, _ in self._connection.execute(sql, (vector.tobytes(), k))]

    def ids(self) -> set[str]:
        """Read the table of documents."""
        return {id for (id,) in self._connection.execute("SELECT id FROM documents")}

    def _transaction(self) -> Any:
        return _Immediate(self._connection)


@dataclass
class _Immediate:
    """A transaction that takes the lock at once: a later upgrade would not wait for others."""

    connection: Any

    def __enter__(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.connection.execute("COMMIT" if kind is None else "ROLLBACK")


class LanceDb:
    """LanceDB with an index over the first documents; each search asks for the newest version."""

    def __init__(self, folder: Path, dim: int) -> None:
        import lancedb
        import pyarrow

        self._arrow, self._dim = pyarrow, dim
        self._connection = lancedb.connect(str(folder), read_consistency_interval=timedelta(0))
        self._table = None
        if (folder / "documents.lance").exists():
            self._table = self._connection.open_table("documents")

    def add(self, ids: Sequence[str], texts: Sequence[str], vectors: Matrix) -> None:
        """Append rows; the first ones are indexed."""
        arrow = self._arrow
        values = arrow.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
        rows = arrow.FixedSizeListArray.from_arrays(values, self._dim)
        columns = {"id": arrow.array(ids), "text": arrow.array(texts), "vector": rows}
        if self._table is not None:
            self._table.add(arrow.table(columns))
            return
        from lancedb.index import FTS, HnswSq

        table = self._connection.create_table("documents", arrow.table(columns))
        table.create_index("vector", config=HnswSq(distance_type="cosine"))
        table.create_index("text", config=FTS())
        self._table = table

    def search(self, vector: Matrix, k: int) -> list[str]:
        """Search the index, and scan what it lacks."""
        assert self._table is not None
        search = self._table.search(vector).distance_type("cosine").limit(k)
        found: list[str] = search.select(["id", "text", "_distance"]).to_arrow()["id"].to_pylist()
        return found

    def ids(self) -> set[str]:
        """Read the column of ids."""
        assert self._table is not None
        return set(self._table.search().select(["id"]).limit(None).to_arrow()["id"].to_pylist())


class Chroma:
    """Chroma's embedded client."""

    def __init__(self, folder: Path, dim: int) -> None:
        import chromadb

        quiet = chromadb.Settings(anonymized_telemetry=False)
        self._client: Any = chromadb.PersistentClient(str(folder), settings=quiet)
        self._collection = self._client.get_or_create_collection(
            "documents", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )

    def add(self, ids: Sequence[str], texts: Sequence[str], vectors: Matrix) -> None:
        """Call `Collection.add`."""
        for part in batches(len(ids), self._client.get_max_batch_size()):
            self._collection.add(
                ids=list(ids[part]), documents=list(texts[part]), embeddings=vectors[part]
            )

    def search(self, vector: Matrix, k: int) -> list[str]:
        """Call `Collection.query`."""
        found = self._collection.query(
            query_embeddings=vector[None], n_results=k, include=["documents"]
        )
        return list(found["ids"][0])

    def ids(self) -> set[str]:
        """Get all ids."""
        return set(self._collection.get(include=[])["ids"])


STORES: dict[str, tuple[Callable[[Path, int], ChangedStore], tuple[str, ...]]] = {
    "slimdex": (Slimdex, ()),
    "SQLite": (Sqlite, ("sqlite-vec", "apsw")),
    "LanceDB": (LanceDb, ("lancedb", "pyarrow")),
    "Chroma": (Chroma, ("chromadb",)),
}
"""Name -> opens or creates a store for vectors of some dimensions, and its packages."""


def missing_stores() -> dict[str, str]:
    """Map missing stores to the packages to install."""
    return not_installed({name: packages for name, (_, packages) in STORES.items()})
