"""Peers: databases, searched by vectors only; `document_stores` searches some for documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, batches
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.atomic_files import size

from .engine import Footprint
from .peer_libraries import GRAPH_EFFORT, GRAPH_LINKS, Answer, Nearest, PeerEngine, padded


class Database(PeerEngine):
    """Base of databases: one query after the other, all data on disk."""

    def nearest(self, query: NDArray[np.float32], k: int) -> Nearest:
        """Return scores and rows of the k nearest to a vector (dim,)."""
        raise NotImplementedError

    def search(self, queries: Matrix, k: int) -> Answer:
        return padded([self.nearest(query, k) for query in queries], k)

    def footprint(self) -> Footprint:
        return Footprint(disk_row=size(self.folder) / self.rows)


class Chroma(Database):
    """Chroma on disk with the same graph; effort is ef_search."""

    def __init__(self) -> None:
        import chromadb
        from chromadb.api.shared_system_client import SharedSystemClient

        self._chromadb, self._clients = chromadb, SharedSystemClient

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        client = self._client()
        graph = {
            "space": "cosine",
            "max_neighbors": GRAPH_LINKS,
            "ef_construction": GRAPH_EFFORT,
        }
        self._collection = client.create_collection(
            "vectors", configuration={"hnsw": graph}, embedding_function=None
        )
        start, at_once = 0, client.get_max_batch_size()
        for chunk in vectors.scan():
            for part in batches(len(chunk), at_once):
                ids = [str(start + i) for i in range(part.start, part.stop)]
                self._collection.add(ids=ids, embeddings=chunk[part])
            start += len(chunk)

    def set_effort(self, effort: int) -> None:
        if effort != self.effort:  # an open collection does not notice: open it again
            self.effort = effort
            self._collection.modify(configuration={"hnsw": {"ef_search": effort}})
            self._clients.clear_system_cache()
            self._collection = self._client().get_collection("vectors", embedding_function=None)

    def search(self, queries: Matrix, k: int) -> Answer:
        found = self._collection.query(query_embeddings=queries, n_results=k, include=["distances"])
        lists = [
            ([1 - d for d in distances], [int(id) for id in ids])
            for distances, ids in zip(found["distances"], found["ids"], strict=True)
        ]
        return padded(lists, k)

    def _client(self) -> Any:
        quiet = self._chromadb.Settings(anonymized_telemetry=False)
        return self._chromadb.PersistentClient(str(self.folder), settings=quiet)


class LanceDb(Database):
    """LanceDB, HNSW over 8-bit rows in inverted lists; effort is ef, with 2k rows rescored."""

    def __init__(self) -> None:
        import lancedb
        import pyarrow

        self._lancedb, self._arrow = lancedb, pyarrow

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        from lancedb.index import HnswSq

        database = self._lancedb.connect(str(folder))
        self._table = database.create_table("vectors", _arrow_batches(self._arrow, vectors))
        graph = HnswSq(
            distance_type="cosine",
            num_partitions=1,
            m=GRAPH_LINKS,
            ef_construction=GRAPH_EFFORT,
        )
        self._table.create_index("vector", config=graph)

    def nearest(self, query: NDArray[np.float32], k: int) -> Nearest:
        search = self._table.search(query).distance_type("cosine").limit(k)
        search = search.ef(max(self.effort, 2 * k)).refine_factor(2)
        found = search.select(["row", "_distance"]).to_arrow()
        return (1 - found["_distance"].to_numpy()).tolist(), found["row"].to_pylist()


class QdrantEdge(Database):
    """Qdrant in the process, the same graph; effort is hnsw_ef."""

    def __init__(self) -> None:
        import qdrant_edge

        self._edge = qdrant_edge

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        edge = self._edge
        graph = edge.HnswIndexConfig(
            m=GRAPH_LINKS, ef_construct=GRAPH_EFFORT, full_scan_threshold=10
        )
        config = edge.EdgeConfig(
            vectors=edge.EdgeVectorParams(size=vectors.dim, distance=edge.Distance.Cosine),
            hnsw_config=graph,
            optimizers=edge.EdgeOptimizersConfig(
                default_segment_number=1, indexing_threshold=1, max_segment_size=2_000_000
            ),
        )
        self._shard = edge.EdgeShard.create(str(folder), config)
        start = 0
        for chunk in vectors.scan():
            points = [edge.Point(id=start + i, vector=x.tolist()) for i, x in enumerate(chunk)]
            self._shard.update(edge.UpdateOperation.upsert_points(points))
            start += len(chunk)
        self._shard.optimize()

    def nearest(self, query: NDArray[np.float32], k: int) -> Nearest:
        edge, asked = self._edge, self._edge.Query.Nearest(query.tolist())
        parameters = edge.SearchParams(hnsw_ef=max(self.effort, k))
        found = self._shard.query(edge.QueryRequest(limit=k, query=asked, params=parameters))
        return [hit.score for hit in found], [hit.id for hit in found]


class SqliteVec(Database):
    """sqlite-vec, exact scan of float32 rows in an SQLite file."""

    def __init__(self) -> None:
        import apsw  # many Pythons are built with an sqlite3 that loads no extensions
        import sqlite_vec

        self._apsw, self._extension = apsw, sqlite_vec.loadable_path()

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        self._connection = self._apsw.Connection(str(folder / "vectors.db"))
        self._connection.enable_load_extension(True)
        self._connection.load_extension(self._extension)
        self._connection.execute(
            "CREATE VIRTUAL TABLE vectors USING "
            f"vec0(embedding float[{vectors.dim}] distance_metric=cosine)"
        )
        start = 0
        with self._connection:  # one transaction
            for chunk in vectors.scan():
                rows = ((start + i, x.tobytes()) for i, x in enumerate(chunk))
                insert = "INSERT INTO vectors(rowid, embedding) VALUES (?, ?)"
                self._connection.executemany(insert, rows)
                start += len(chunk)

    def nearest(self, query: NDArray[np.float32], k: int) -> Nearest:
        sql = "SELECT distance, rowid FROM vectors WHERE embedding MATCH ? AND k = ?"
        found = list(self._connection.execute(sql, (query.tobytes(), k)))
        return [1 - d for d, _ in found], [row for _, row in found]


class DuckDb(Database):
    """DuckDB's array_cosine_similarity over a FLOAT[d] column, exact, no index."""

    def __init__(self) -> None:
        import duckdb
        import pyarrow

        self._duckdb, self._arrow = duckdb, pyarrow

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        self._connection = self._duckdb.connect(str(folder / "vectors.duckdb"))
        column = f"vector FLOAT[{vectors.dim}]"
        self._connection.execute(f'CREATE TABLE vectors ("row" BIGINT, {column})')
        self._connection.register("batches", _arrow_batches(self._arrow, vectors))
        self._connection.execute("INSERT INTO vectors SELECT * FROM batches")
        self._connection.execute("CHECKPOINT")

    def nearest(self, query: NDArray[np.float32], k: int) -> Nearest:
        sql = (
            f"SELECT array_cosine_similarity(vector, ?::FLOAT[{self.dim}]) AS score, "
            '"row" FROM vectors ORDER BY score DESC LIMIT ?'
        )
        found = self._connection.execute(sql, [query.tolist(), k]).fetchall()
        return [score for score, _ in found], [row for _, row in found]


def _arrow_batches(arrow: Any, vectors: VectorFile) -> Any:
    """Return a reader of (row, vector), in chunks."""
    fields = {"row": arrow.int64(), "vector": arrow.list_(arrow.float32(), vectors.dim)}
    schema = arrow.schema(list(fields.items()))

    def batch(part: slice, chunk: Matrix) -> Any:
        values = arrow.array(chunk.reshape(-1))
        lists = arrow.FixedSizeListArray.from_arrays(values, vectors.dim)
        return arrow.record_batch([arrow.array(np.arange(part.start, part.stop)), lists], schema)

    chunks = zip(batches(len(vectors)), vectors.scan(), strict=True)
    return arrow.RecordBatchReader.from_batches(schema, (batch(*chunk) for chunk in chunks))
