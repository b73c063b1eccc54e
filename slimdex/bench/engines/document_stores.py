"""Document stores, which keep texts with ids and vectors and search them; slimdex is one.

Each is built and searched as its documentation shows, with its defaults; the others require the
extra `peers`. A library is imported when its store is created, so that the process then grows by
the library and its store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from slimdex.indexes.arrays import Matrix, batches, normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Hit
from slimdex.retrieval.encoders.base import Encoder, encode_queries
from slimdex.retrieval.search.answer import nearest_documents
from slimdex.retrieval.search.request import SearchRequest

from ..machine import not_installed

Answer = list[tuple[str, str]]
"""(id, text) of documents, best first."""
SLIMDEX, SLIMDEX_FOLDER = "slimdex", "documents.index"
"""Name of slimdex's default store, and the folder of its collection."""


class Query(NamedTuple):
    """A query, and its vector (dim,)."""

    text: str
    vector: Matrix


@dataclass(frozen=True)
class Documents:
    """Documents with their vectors (float32), a row for each."""

    ids: Sequence[str]
    texts: Sequence[str]
    vectors: VectorFile

    def parts(self, most: int) -> Iterator[tuple[range, Sequence[str], Sequence[str], Matrix]]:
        """Yield rows, ids, texts and vectors, of at most `most` documents at a time."""
        for part, chunk in zip(batches(len(self.vectors)), self.vectors.scan(), strict=True):
            for few in batches(len(chunk), most):
                rows = range(part.start + few.start, part.start + few.stop)
                chosen = slice(rows.start, rows.stop)
                yield rows, self.ids[chosen], self.texts[chosen], chunk[few]


class DocumentStore(Protocol):
    """Documents on disk that can be searched."""

    def build(self, documents: Documents, folder: Path) -> None:
        """Write all documents to a folder, as a process that ends afterwards."""
        ...

    def open(self, folder: Path) -> None:
        """Open what was built in a folder."""
        ...

    def set_effort(self, effort: int) -> None:
        """Set the effort in the store's own unit; 0 is its default."""
        ...

    def nearest(self, query: Query, k: int) -> Any:
        """Find the k best documents for an encoded query, without their texts."""
        ...

    def fetch(self, query: Query, k: int) -> Answer:
        """Find the same documents with their ids and texts."""
        ...

    def ask(self, text: str, k: int) -> Answer:
        """Find the ids and texts for a text, which is encoded."""
        ...

    def codes(self) -> dict[str, int]:
        """Number of vectors (`rows`) and bytes of their codes in memory, if the store says so."""
        ...


class Slimdex:
    """A `Collection` as it is by default; effort is the number of rescored candidates."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._candidates: int | None = None

    def build(self, documents: Documents, folder: Path) -> None:
        """Encode the documents' passages and index them with their words, as `slimdex build`."""
        with Collection.create(folder / SLIMDEX_FOLDER, self._encoder) as new:
            new.add(map(Document, documents.ids, documents.texts))

    def open(self, folder: Path) -> None:
        """Open for reading."""
        self._collection = Collection.open(folder / SLIMDEX_FOLDER, self._encoder)

    def set_effort(self, effort: int) -> None:
        """Set the number of candidates; 0 leaves it to the settings."""
        self._candidates = effort or None

    def nearest(self, query: Query, k: int) -> Any:
        """Return scores and rows, in the order of `fetch`."""
        request = self._request(query, k)
        return self._collection.index.read(nearest_documents, request)

    def fetch(self, query: Query, k: int) -> Answer:
        """Call `Collection.answer` with the text and its vector."""
        return self._shown(self._collection.answer(self._request(query, k))[0])

    def ask(self, text: str, k: int) -> Answer:
        """Call `Collection.search` with a text."""
        return self._shown(self._collection.search(text, k, candidates=self._candidates))

    def codes(self) -> dict[str, int]:
        """Number of passages and bytes of their codes."""
        codes = self._collection.index.snapshot.index.index
        return {"rows": len(codes), "code_bytes": round(codes.row_nbytes * len(codes))}

    def _request(self, query: Query, k: int) -> SearchRequest:
        vectors = query.vector[None]
        return SearchRequest(
            texts=[query.text], vectors=vectors, limit=k, candidates=self._candidates
        )

    @staticmethod
    def _shown(hits: Sequence[Hit]) -> Answer:
        return [(hit.id, hit.text) for hit in hits]


class SlimdexByVectors(Slimdex):
    """A `Collection` of given vectors without words: what the other stores have."""

    def __init__(self, encoder: Encoder, settings: Settings) -> None:
        super().__init__(encoder)
        self._settings = settings

    def build(self, documents: Documents, folder: Path) -> None:
        """Build from existing vectors, as `slimdex build --vectors --no-lexical`."""
        made = map(Document, documents.ids, documents.texts)
        where = folder / SLIMDEX_FOLDER
        with Collection.create(
            where, self._encoder, self._settings, passages="off", lexical=False
        ) as new:
            new.add(made, vectors=documents.vectors.map())


class _Peer:
    """Base of stores that are searched by vectors: encodes the queries."""

    effort = 0

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def set_effort(self, effort: int) -> None:
        self.effort = effort

    def fetch(self, query: Query, k: int) -> Answer:
        raise NotImplementedError

    def ask(self, text: str, k: int) -> Answer:
        return self.fetch(Query(text, encode_queries(self._encoder, [text])[0]), k)

    def codes(self) -> dict[str, int]:
        return {}


class Chroma(_Peer):
    """Chroma on disk; effort is ef_search."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        import chromadb
        from chromadb.api.shared_system_client import SharedSystemClient

        self._chromadb, self._clients = chromadb, SharedSystemClient

    def build(self, documents: Documents, folder: Path) -> None:
        client = self._client(folder)
        space = {"hnsw": {"space": "cosine"}}
        made = client.create_collection("documents", configuration=space, embedding_function=None)
        for _, ids, texts, vectors in documents.parts(client.get_max_batch_size()):
            made.add(ids=list(ids), documents=list(texts), embeddings=vectors)

    def open(self, folder: Path) -> None:
        self._folder = folder
        client = self._client(folder)
        self._collection = client.get_collection("documents", embedding_function=None)

    def set_effort(self, effort: int) -> None:
        self._collection.modify(configuration={"hnsw": {"ef_search": effort}})
        self._clients.clear_system_cache()  # an open client does not notice the change
        self.open(self._folder)

    def nearest(self, query: Query, k: int) -> Any:
        return self._collection.query(query_embeddings=query.vector, n_results=k, include=[])["ids"]

    def fetch(self, query: Query, k: int) -> Answer:
        found = self._collection.query(
            query_embeddings=query.vector, n_results=k, include=["documents", "distances"]
        )
        return list(zip(found["ids"][0], found["documents"][0], strict=True))

    def _client(self, folder: Path) -> Any:
        quiet = self._chromadb.Settings(anonymized_telemetry=False)
        return self._chromadb.PersistentClient(str(folder), settings=quiet)


class LanceDb(_Peer):
    """LanceDB, HNSW over 8-bit rows; effort is ef, with 2k rows rescored."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        import lancedb
        import pyarrow

        self._lancedb, self._arrow = lancedb, pyarrow

    def build(self, documents: Documents, folder: Path) -> None:
        from lancedb.index import HnswSq

        arrow, dim = self._arrow, documents.vectors.dim
        texts = {"id": arrow.string(), "text": arrow.string()}
        schema = arrow.schema([*texts.items(), ("vector", arrow.list_(arrow.float32(), dim))])

        def batch(ids: Sequence[str], texts: Sequence[str], vectors: Matrix) -> Any:
            values = arrow.array(vectors.reshape(-1))
            rows = arrow.FixedSizeListArray.from_arrays(values, dim)
            return arrow.record_batch([arrow.array(ids), arrow.array(texts), rows], schema)

        parts = (batch(*part[1:]) for part in documents.parts(len(documents.ids)))
        reader = arrow.RecordBatchReader.from_batches(schema, parts)
        table = self._lancedb.connect(str(folder)).create_table("documents", reader)
        table.create_index("vector", config=HnswSq(distance_type="cosine"))

    def open(self, folder: Path) -> None:
        self._table = self._lancedb.connect(str(folder)).open_table("documents")

    def nearest(self, query: Query, k: int) -> Any:
        return self._search(query.vector, k).with_row_id(True).select(["_distance"]).to_arrow()

    def fetch(self, query: Query, k: int) -> Answer:
        found = self._search(query.vector, k).select(["id", "text", "_distance"]).to_arrow()
        return list(zip(found["id"].to_pylist(), found["text"].to_pylist(), strict=True))

    def _search(self, vector: Matrix, k: int) -> Any:
        search = self._table.search(vector).distance_type("cosine").limit(k)
        return search.ef(max(self.effort, 2 * k)).refine_factor(2) if self.effort else search


class QdrantEdge(_Peer):
    """Qdrant in the process; effort is hnsw_ef."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        import qdrant_edge

        self._edge = qdrant_edge

    def build(self, documents: Documents, folder: Path) -> None:
        edge = self._edge
        kept = edge.EdgeVectorParams(size=documents.vectors.dim, distance=edge.Distance.Cosine)
        shard = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors=kept))
        for rows, ids, texts, vectors in documents.parts(len(documents.ids)):
            each = zip(rows, ids, texts, vectors.tolist(), strict=True)
            points = [edge.Point(row, x, {"id": id, "text": text}) for row, id, text, x in each]
            shard.update(edge.UpdateOperation.upsert_points(points))
        shard.optimize()
        shard.close()

    def open(self, folder: Path) -> None:
        self._shard = self._edge.EdgeShard.load(str(folder))

    def nearest(self, query: Query, k: int) -> Any:
        return self._found(query.vector, k, with_payload=False)

    def fetch(self, query: Query, k: int) -> Answer:
        payloads = [hit.payload for hit in self._found(query.vector, k, with_payload=True)]
        return [(payload["id"], payload["text"]) for payload in payloads]

    def _found(self, vector: Matrix, k: int, *, with_payload: bool) -> Any:
        edge = self._edge
        nearest = edge.Query.Nearest(vector.tolist())
        harder = edge.SearchParams(hnsw_ef=self.effort) if self.effort else None
        request = edge.QueryRequest(
            limit=k, query=nearest, params=harder, with_payload=with_payload
        )
        return self._shard.query(request)


class SqliteVec(_Peer):
    """sqlite-vec beside a table of texts: an exact scan of float32 rows, then a join."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        import apsw  # many Pythons are built with an sqlite3 that loads no extensions
        import sqlite_vec

        self._apsw, self._extension = apsw, sqlite_vec.loadable_path()
        self._own = threading.local()  # a connection is one thread's

    def build(self, documents: Documents, folder: Path) -> None:
        columns = f"embedding float[{documents.vectors.dim}] distance_metric=cosine"
        with closing(self._connected(folder)) as connection, connection:  # one transaction
            connection.execute(f"CREATE VIRTUAL TABLE vectors USING vec0({columns})")
            connection.execute('CREATE TABLE documents("row" INTEGER PRIMARY KEY, id, text)')
            for rows, ids, texts, vectors in documents.parts(len(documents.ids)):
                connection.executemany(
                    "INSERT INTO documents VALUES (?, ?, ?)", zip(rows, ids, texts, strict=True)
                )
                connection.executemany(
                    "INSERT INTO vectors(rowid, embedding) VALUES (?, ?)",
                    ((row, x.tobytes()) for row, x in zip(rows, vectors, strict=True)),
                )

    def open(self, folder: Path) -> None:
        self._folder = folder

    def nearest(self, query: Query, k: int) -> Any:
        sql = "SELECT rowid FROM vectors WHERE embedding MATCH ? AND k = ?"
        return list(self._connection.execute(sql, (query.vector.tobytes(), k)))

    def fetch(self, query: Query, k: int) -> Answer:
        sql = """WITH found AS (
            SELECT rowid, distance FROM vectors WHERE embedding MATCH ? AND k = ?
        )
        SELECT id, text FROM found JOIN documents ON "row" = found.rowid ORDER BY distance"""
        return list(self._connection.execute(sql, (query.vector.tobytes(), k)))

    @property
    def _connection(self) -> Any:
        if not hasattr(self._own, "connection"):
            self._own.connection = self._connected(self._folder)
        return self._own.connection

    def _connected(self, folder: Path) -> Any:
        connection = self._apsw.Connection(str(folder / "documents.db"))
        connection.enable_load_extension(True)
        connection.load_extension(self._extension)
        return connection


class Txtai(_Peer):
    """txtai with its content in SQLite and its vectors in FAISS; effort is nprobe.

    It encodes queries itself, by a function that it is given.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        import txtai

        self._txtai = txtai
        self._given: list[Matrix] = []

    def build(self, documents: Documents, folder: Path) -> None:
        vectors = documents.vectors.map()
        row = 0

        def encode(texts: list[str]) -> Matrix:  # it asks in the documents' order
            nonlocal row
            row += len(texts)
            return np.array(vectors[row - len(texts) : row], dtype=np.float32)

        made = self._txtai.Embeddings(method="external", transform=encode, content=True)
        made.index(zip(documents.ids, documents.texts, strict=True))
        made.save(str(folder / "documents"))
        made.close()

    def open(self, folder: Path) -> None:
        def encode(texts: list[str]) -> Matrix:
            return self._given.pop()[None] if self._given else encode_queries(self._encoder, texts)

        config = {"transform": encode, "faiss": {}}
        self._embeddings = self._txtai.Embeddings()
        self._embeddings.load(str(folder / "documents"), config=config)

    def set_effort(self, effort: int) -> None:
        self._embeddings.ann.config["faiss"] = {"nprobe": effort} if effort else {}

    def nearest(self, query: Query, k: int) -> Any:
        return self._embeddings.ann.search(normalize_rows(query.vector[None]), k)

    def fetch(self, query: Query, k: int) -> Answer:
        self._given.append(query.vector)
        return self.ask("given", k)

    def ask(self, text: str, k: int) -> Answer:
        return [(hit["id"], hit["text"]) for hit in self._embeddings.search(text, k)]


@dataclass(frozen=True)
class Store:
    """An entry of the table.

    Attributes
    ----------
    packages : required packages.
    efforts : to try in ascending order, until one finds enough.
    default : effort that is always measured; 0 leaves it to the store.
    callers : whether several threads may search.
    processes : whether several may have it open.
    """

    make: Callable[[Encoder], DocumentStore]
    packages: tuple[str, ...] = ()
    efforts: tuple[int, ...] = ()
    default: int = 0
    callers: bool = True
    processes: bool = True


OWN_ORDER = Settings(beta=0.0, gamma=0.0)
"""Metric of the exact search, whose answers are the reference for recall."""
CANDIDATES = (100, 150, 200, 300, 400, 600, 1000, 2000, 4000)
GRAPH_EFFORTS = (32, 64, 96, 128, 192, 256, 512)

STORES: dict[str, Store] = {
    SLIMDEX: Store(Slimdex),
    f"{SLIMDEX} by vectors": Store(lambda encoder: SlimdexByVectors(encoder, Settings())),
    f"{SLIMDEX} own order": Store(
        lambda encoder: SlimdexByVectors(encoder, OWN_ORDER), (), CANDIDATES
    ),
    "Chroma": Store(Chroma, ("chromadb",), (100, 200, 400, 800), 100),
    "LanceDB": Store(LanceDb, ("lancedb", "pyarrow"), GRAPH_EFFORTS),
    "Qdrant edge": Store(QdrantEdge, ("qdrant-edge-py",), GRAPH_EFFORTS, processes=False),
    "sqlite-vec": Store(SqliteVec, ("sqlite-vec", "apsw")),
    "txtai": Store(Txtai, ("txtai",), (16, 32, 64, 128, 256, 512, 1024), callers=False),
}
"""Name -> store; the first is slimdex by default."""


def missing_stores() -> dict[str, str]:
    """Map missing stores to the packages to install."""
    return not_installed({name: store.packages for name, store in STORES.items()})
