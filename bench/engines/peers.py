"""Peers: what people use today, each behind the same four methods.

They come with the extra `peers`. A peer that is not installed is named as missing. Every adapter
imports its library when it is made, so that the memory measured later is that of the index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.faiss_index import FaissIndex
from slimdex.indexes.kinds import from_factory
from slimdex.indexes.vector_file import VectorFile

from ..machine import version_of
from .engine import Engine, Footprint, Seconds

Answer = tuple[Matrix, Rows]
GRAPH_LINKS, GRAPH_EFFORT = 16, 200
"""M and efConstruction of every HNSW graph, the same for all: hnswlib's defaults."""


class _Peer:
    """What most adapters share: seconds of the build, and sizes they can't tell."""

    effort = 0

    def build(self, vectors: VectorFile, folder: Path) -> Seconds:
        self.rows, self.dim, self.folder = len(vectors), vectors.dim, folder
        start = perf_counter()
        self._build(vectors, folder)
        return {"index_s": perf_counter() - start}

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        raise NotImplementedError

    def set_effort(self, effort: int) -> None:
        self.effort = effort

    def footprint(self) -> Footprint:
        return Footprint()

    def _on_disk(self) -> float:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return sum(path.stat().st_size for path in files) / self.rows


class Hnswlib(_Peer):
    """hnswlib, M=16, efConstruction=200; effort is ef."""

    def __init__(self) -> None:
        import hnswlib

        self._hnswlib = hnswlib

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        self._index = self._hnswlib.Index(space="ip", dim=vectors.dim)
        self._index.init_index(len(vectors), ef_construction=GRAPH_EFFORT, M=GRAPH_LINKS)
        for chunk in vectors.scan():
            self._index.add_items(normalize_rows(chunk))

    def search(self, queries: Matrix, k: int) -> Answer:
        self._index.set_ef(max(self.effort, k))
        rows, distances = self._index.knn_query(normalize_rows(queries), k)
        return 1 - distances, rows.astype(np.int64)

    def footprint(self) -> Footprint:
        size = self._index.index_file_size() / self.rows
        return Footprint(ram_row=size, ram_fixed=0, disk_row=size)


class Usearch(_Peer):
    """usearch with the same graph; effort is expansion_search."""

    def __init__(self, dtype: str) -> None:
        from usearch.index import Index

        self._class, self._dtype = Index, dtype

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        self._index = self._class(
            ndim=vectors.dim,
            metric="cos",
            dtype=self._dtype,
            connectivity=GRAPH_LINKS,
            expansion_add=GRAPH_EFFORT,
        )
        keys = np.arange(len(vectors))
        for part, chunk in zip(batches(len(vectors)), vectors.scan(), strict=True):
            self._index.add(keys[part], normalize_rows(chunk))

    def search(self, queries: Matrix, k: int) -> Answer:
        self._index.expansion_search = max(self.effort, k)
        found = self._index.search(normalize_rows(queries), k)
        shape = (len(queries), k)
        return 1 - found.distances.reshape(shape), found.keys.reshape(shape).astype(np.int64)

    def footprint(self) -> Footprint:
        size = self._index.serialized_length / self.rows
        return Footprint(ram_row=size, ram_fixed=0, disk_row=size)


class FaissHnsw(_Peer):
    """FAISS's IndexHNSWFlat with the same graph; effort is efSearch."""

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        self._index = FaissIndex(from_factory(f"HNSW{GRAPH_LINKS}"), vectors.dim)
        for chunk in vectors.scan():
            self._index.add(normalize_rows(chunk))

    def set_effort(self, effort: int) -> None:
        self._index.set_parameters(f"efSearch={effort}")

    def search(self, queries: Matrix, k: int) -> Answer:
        return self._index.search(normalize_rows(queries), k)

    def footprint(self) -> Footprint:
        size = self._index.nbytes / self.rows
        return Footprint(ram_row=size, ram_fixed=0, disk_row=size)


class Chroma(_Peer):
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
        if effort != self.effort:  # a collection that is open does not take notice: open it again
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
        return _matrix(lists, k)

    def footprint(self) -> Footprint:
        return Footprint(disk_row=self._on_disk())

    def _client(self) -> Any:
        quiet = self._chromadb.Settings(anonymized_telemetry=False)
        return self._chromadb.PersistentClient(str(self.folder), settings=quiet)


class LanceDb(_Peer):
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

    def search(self, queries: Matrix, k: int) -> Answer:
        lists = []
        for query in queries:
            search = self._table.search(query).distance_type("cosine").limit(k)
            search = search.ef(max(self.effort, 2 * k)).refine_factor(2)
            found = search.select(["row", "_distance"]).to_arrow()
            distances = found["_distance"].to_numpy()
            lists.append(((1 - distances).tolist(), found["row"].to_pylist()))
        return _matrix(lists, k)

    def footprint(self) -> Footprint:
        return Footprint(disk_row=self._on_disk())


class QdrantEdge(_Peer):
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

    def search(self, queries: Matrix, k: int) -> Answer:
        edge, lists = self._edge, []
        parameters = edge.SearchParams(hnsw_ef=max(self.effort, k))
        for query in queries:
            nearest = edge.Query.Nearest(query.tolist())
            found = self._shard.query(edge.QueryRequest(limit=k, query=nearest, params=parameters))
            lists.append(([hit.score for hit in found], [hit.id for hit in found]))
        return _matrix(lists, k)

    def footprint(self) -> Footprint:
        return Footprint(disk_row=self._on_disk())


class SqliteVec(_Peer):
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

    def search(self, queries: Matrix, k: int) -> Answer:
        sql = "SELECT distance, rowid FROM vectors WHERE embedding MATCH ? AND k = ?"
        lists = []
        for query in queries:
            found = list(self._connection.execute(sql, (query.tobytes(), k)))
            lists.append(([1 - d for d, _ in found], [row for _, row in found]))
        return _matrix(lists, k)

    def footprint(self) -> Footprint:
        return Footprint(disk_row=self._on_disk())


class DuckDb(_Peer):
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

    def search(self, queries: Matrix, k: int) -> Answer:
        sql = (
            f"SELECT array_cosine_similarity(vector, ?::FLOAT[{self.dim}]) AS score, "
            '"row" FROM vectors ORDER BY score DESC LIMIT ?'
        )
        lists = []
        for query in queries:
            found = self._connection.execute(sql, [query.tolist(), k]).fetchall()
            lists.append(([score for score, _ in found], [row for _, row in found]))
        return _matrix(lists, k)

    def footprint(self) -> Footprint:
        return Footprint(disk_row=self._on_disk())


class TurboQuant(_Peer):
    """turboquant-pro: PCA to d/2 and 4 bits, its ADC scan; effort is its rerank, from disk."""

    def __init__(self) -> None:
        import turboquant_pro

        self._library = turboquant_pro

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        X = normalize_rows(np.concatenate(list(vectors.scan())))
        pca = self._library.PCAMatryoshka(input_dim=vectors.dim, output_dim=vectors.dim // 2)
        pca.fit(X)
        self._index = self._library.ADCIndex(pca.with_quantizer(bits=4)).add(X)
        np.save(folder / "originals.npy", X)
        self._originals = np.load(folder / "originals.npy", mmap_mode="r")

    def search(self, queries: Matrix, k: int) -> Answer:
        queries = normalize_rows(queries)
        if not self.effort:
            rows, scores = self._index.search(queries, k)
            return scores, rows.astype(np.int64)
        rows = self._index.search(queries, k, rerank=self.effort, originals=self._originals)
        taken = self._originals[rows]
        return np.einsum("qd,qkd->qk", queries, taken), rows.astype(np.int64)

    def footprint(self) -> Footprint:
        index = self._index  # it has no public size
        held: list[NDArray[Any]] = [index._codes, index._cnorm, index._vrnorm]
        row = sum(array.nbytes for array in held) / self.rows
        read = 4 * self.dim * 10 * self.effort  # of ten answers
        return Footprint(ram_row=row, disk_row=row + 4 * self.dim, read_query=read)


class SentenceTransformers(_Peer):
    """sentence-transformers' quantised search, rescored as it does; effort is rescore_multiplier.

    Its binary search runs on FAISS, its int8 search on usearch, both exact over their codes.
    """

    def __init__(self, precision: str) -> None:
        from sentence_transformers.util import quantization

        self._library, self._precision = quantization, precision
        self._search = {
            "ubinary": quantization.semantic_search_faiss,
            "int8": quantization.semantic_search_usearch,
        }[precision]

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        X = normalize_rows(np.concatenate(list(vectors.scan())))
        self._ranges = np.vstack([X.min(axis=0), X.max(axis=0)])
        codes = self._library.quantize_embeddings(X, self._precision, ranges=self._ranges)
        self._row = codes.nbytes / self.rows
        options = self._options(1) | {"corpus_embeddings": codes, "output_index": True}
        _, _, self._index = self._search(X[:1], **options)
        if self._precision == "int8":  # usearch builds its graph even for an exact search
            self._row = self._index.serialized_length / self.rows

    def search(self, queries: Matrix, k: int) -> Answer:
        queries, lists = normalize_rows(queries), []
        sign = 1.0 if self.effort else -1.0  # codes alone are scored by their distance
        for part in batches(len(queries), 64):  # it holds 8 bytes a candidate's dimension
            options = self._options(k) | {"corpus_index": self._index}
            found, _ = self._search(queries[part], **options)
            for hits in found:
                scores = [sign * hit["score"] for hit in hits]
                lists.append((scores, [hit["corpus_id"] for hit in hits]))
        return _matrix(lists, k)

    def footprint(self) -> Footprint:
        return Footprint(ram_row=self._row, ram_fixed=0, disk_row=self._row)

    def _options(self, k: int) -> dict[str, Any]:
        return {
            "corpus_precision": self._precision,
            "ranges": self._ranges,
            "top_k": k,
            "rescore": self.effort > 0,
            "rescore_multiplier": max(self.effort, 1),
        }


@dataclass(frozen=True)
class Peer:
    """An entry of the table: what to install, how to make it, how hard it can look."""

    packages: tuple[str, ...]
    make: Callable[[], Engine]
    efforts: tuple[int, ...] = (0,)


GRAPH_EFFORTS = (16, 32, 64, 96, 128, 192, 256, 512)

PEERS: dict[str, Peer] = {
    "hnswlib": Peer(("hnswlib",), Hnswlib, GRAPH_EFFORTS),
    "usearch f32": Peer(("usearch",), lambda: Usearch("f32"), GRAPH_EFFORTS),
    "usearch i8": Peer(("usearch",), lambda: Usearch("i8"), GRAPH_EFFORTS),
    "FAISS HNSW": Peer(("faiss-cpu",), FaissHnsw, GRAPH_EFFORTS),
    "Chroma": Peer(("chromadb",), Chroma, (100, 200, 400)),
    "LanceDB": Peer(("lancedb", "pyarrow"), LanceDb, (32, 128, 512)),
    "Qdrant edge": Peer(("qdrant-edge-py",), QdrantEdge, GRAPH_EFFORTS),
    "sqlite-vec": Peer(("sqlite-vec", "apsw"), SqliteVec),
    "DuckDB arrays": Peer(("duckdb", "pyarrow"), DuckDb),
    "turboquant-pro": Peer(("turboquant-pro",), TurboQuant, (0, 2, 5, 10, 20)),
    "ST int8": Peer(
        ("sentence-transformers", "usearch"), lambda: SentenceTransformers("int8"), (0, 4)
    ),
    "ST binary": Peer(("sentence-transformers",), lambda: SentenceTransformers("ubinary"), (0, 4)),
}


def missing_peers() -> dict[str, str]:
    """Peer -> packages to install, for those that are not there."""
    absent = {n: [p for p in e.packages if version_of(p) is None] for n, e in PEERS.items()}
    return {name: " ".join(packages) for name, packages in absent.items() if packages}


def _arrow_batches(arrow: Any, vectors: VectorFile) -> Any:
    """A reader of (row, vector), a chunk at a time."""
    fields = {"row": arrow.int64(), "vector": arrow.list_(arrow.float32(), vectors.dim)}
    schema = arrow.schema(list(fields.items()))

    def batch(part: slice, chunk: Matrix) -> Any:
        values = arrow.array(chunk.reshape(-1))
        lists = arrow.FixedSizeListArray.from_arrays(values, vectors.dim)
        return arrow.record_batch([arrow.array(np.arange(part.start, part.stop)), lists], schema)

    chunks = zip(batches(len(vectors)), vectors.scan(), strict=True)
    return arrow.RecordBatchReader.from_batches(schema, (batch(*chunk) for chunk in chunks))


def _matrix(lists: list[tuple[list[float], list[int]]], k: int) -> Answer:
    """Answers of different lengths as two matrices."""
    scores = np.full((len(lists), k), -np.inf, dtype=np.float32)
    rows = np.full((len(lists), k), -1, dtype=np.int64)
    for i, (score, row) in enumerate(lists):
        scores[i, : len(score)], rows[i, : len(row)] = score, row
    return scores, rows
