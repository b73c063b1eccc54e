"""Databases: libraries that keep vectors in a folder, most of them with ids and texts.

Each is used as its documentation shows, and imported when an object of its class is made: memory
is measured from before that for texts, and from after it for vectors. The extra `peers` has them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches

from .engine import (
    CANDIDATE_EFFORTS,
    GRAPH_EFFORTS,
    LIST_EFFORTS,
    USUAL,
    VECTORS,
    Answer,
    Batch,
    Database,
    Documents,
    Place,
    Query,
    by_place,
)
from .libraries import GRAPH_EFFORT, GRAPH_LINKS, RESCORED

BUSY_MS = 5000
"""Time that SQLite waits for other processes: the default of Python's `sqlite3`."""


class Chroma(Database):
    """Chroma's embedded client; effort is ef_search."""

    library = "chromadb"
    packages = ("chromadb",)
    for_vectors = GRAPH_EFFORTS
    for_documents = (100, 200, 400, 800)

    def open(self, place: Place) -> None:
        self.place = place
        quiet = self._library.Settings(anonymized_telemetry=False)
        self._client = self._library.PersistentClient(str(place.folder), settings=quiet)
        graph: dict[str, Any] = {"space": "cosine"}
        if place.ability is VECTORS:
            graph |= {"max_neighbors": GRAPH_LINKS, "ef_construction": GRAPH_EFFORT}
        self._collection = self._client.get_or_create_collection(
            "documents", configuration={"hnsw": graph}, embedding_function=None
        )

    def add(self, parts: Iterable[Batch]) -> None:
        for part in parts:
            for few in batches(len(part.ids), self._client.get_max_batch_size()):
                texts = None if part.texts is None else list(part.texts[few])
                ids = [*map(str, part.ids[few])]
                self._collection.add(ids=ids, documents=texts, embeddings=part.vectors[few])

    def set_effort(self, effort: int) -> None:
        # Loaded with the library, by __init__.
        from chromadb.api.shared_system_client import SharedSystemClient

        if effort != self.effort:  # an open collection does not notice: open it again
            self.effort = effort
            self._collection.modify(configuration={"hnsw": {"ef_search": effort}})
            SharedSystemClient.clear_system_cache()
            self.open(self.place)

    def fetch(self, query: Query, k: int) -> Answer:
        answer = self._collection.query(query_embeddings=query.vector[None], n_results=k)
        return list(zip(answer["ids"][0], answer["documents"][0], strict=True))

    def search(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        answer = self._collection.query(query_embeddings=queries, n_results=k, include=[])
        return by_place(answer["ids"], k)


class LanceDb(Database):
    """LanceDB, HNSW over 8-bit rows in inverted lists; effort is ef, with 2k rows rescored."""

    library = "lancedb"
    packages = ("lancedb", "pyarrow")
    for_vectors = GRAPH_EFFORTS
    for_documents = (*USUAL, *GRAPH_EFFORTS[1:])

    def open(self, place: Place) -> None:
        self.place = place
        self._table: Any = None
        self._connection = self._library.connect(str(place.folder))
        if (place.folder / "documents.lance").exists():
            self._table = self._connection.open_table("documents")

    def add(self, parts: Iterable[Batch]) -> None:
        rows = _arrow_batches(self.place, parts)
        if self._table is None:
            self._table = self._connection.create_table("documents", rows)
        else:
            self._table.add(rows)

    def finish(self) -> None:
        self._table.create_index("vector", config=self._index_config())

    def _index_config(self) -> Any:
        from lancedb.index import HnswSq  # loaded with the library, by __init__

        graph: dict[str, Any] = {"distance_type": "cosine"}
        if self.place.ability is VECTORS:
            graph |= {"num_partitions": 1, "m": GRAPH_LINKS, "ef_construction": GRAPH_EFFORT}
        return HnswSq(**graph)

    def fetch(self, query: Query, k: int) -> Answer:
        columns = ["id"] if self.place.ability is VECTORS else ["id", "text"]
        # Without the distance, which orders the answers, LanceDB warns.
        table = self._search(query, k).select([*columns, "_distance"]).to_arrow()
        ids = table["id"].to_pylist()
        texts = table["text"].to_pylist() if "text" in columns else [""] * len(ids)
        return list(zip(ids, texts, strict=True))

    def _search(self, query: Query, k: int) -> Any:
        search = self._table.search(query.vector).distance_type("cosine").limit(k)
        if not self.effort:  # use LanceDB's defaults
            return search
        return search.ef(max(self.effort, 2 * k)).refine_factor(2)


class LanceDbLists(LanceDb):
    """LanceDB, inverted lists of product codes; effort is nprobes, with `RESCORED` rows rescored.

    The number of lists and the size of codes are LanceDB's defaults.
    """

    for_vectors = LIST_EFFORTS
    for_documents = ()

    def _index_config(self) -> Any:
        from lancedb.index import IvfPq  # loaded with the library, by __init__

        return IvfPq(distance_type="cosine")

    def _search(self, query: Query, k: int) -> Any:
        search = self._table.search(query.vector).distance_type("cosine").limit(k)
        return search.nprobes(self.effort).refine_factor(max(RESCORED // k, 1))


class QdrantEdge(Database):
    """Qdrant in the process; effort is hnsw_ef.

    If `small`, rows and graph are on disk; codes of int8 find twice as many candidates, which are
    rescored: "high precision with low memory usage" in Qdrant's guide.
    """

    library = "qdrant_edge"
    packages = ("qdrant-edge-py",)
    for_vectors = GRAPH_EFFORTS
    for_documents = (*USUAL, *GRAPH_EFFORTS[1:])
    processes = False
    small = False

    def open(self, place: Place) -> None:
        self.place = place
        edge = self._library
        if any(place.folder.iterdir()):
            self._shard = edge.EdgeShard.load(str(place.folder))
            return

        # Create a shard. A small one keeps vectors on disk, and codes of 8 bits in memory.
        options: dict[str, Any] = {}
        on_disk = {"memory": edge.Memory.Cold} if self.small else {}
        if place.ability is VECTORS:
            options["hnsw_config"] = edge.HnswIndexConfig(
                m=GRAPH_LINKS, ef_construct=GRAPH_EFFORT, full_scan_threshold=10, **on_disk
            )
            options["optimizers"] = edge.EdgeOptimizersConfig(
                default_segment_number=1, indexing_threshold=1, max_segment_size=2_000_000
            )
        if self.small:
            codes = edge.ScalarQuantizationConfig(edge.ScalarType.Int8, memory=edge.Memory.Cached)
            options["quantization_config"] = codes
        vectors = edge.EdgeVectorParams(size=place.dim, distance=edge.Distance.Cosine, **on_disk)
        config = edge.EdgeConfig(vectors=vectors, **options)
        self._shard = edge.EdgeShard.create(str(place.folder), config)

    def add(self, parts: Iterable[Batch]) -> None:
        edge = self._library
        for rows, ids, texts, vectors in parts:
            payloads: list[Any] = [None] * len(rows)
            if texts is not None:
                pairs = zip(ids, texts, strict=True)
                payloads = [{"id": id, "text": text} for id, text in pairs]
            points = [*map(edge.Point, rows, vectors.tolist(), payloads)]
            self._shard.update(edge.UpdateOperation.upsert_points(points))

    def finish(self) -> None:
        self._shard.optimize()

    def close(self) -> None:
        self._shard.close()

    def fetch(self, query: Query, k: int) -> Answer:
        if self.place.ability is VECTORS:
            return [(hit.id, "") for hit in self._points(query, k, with_payload=False)]
        payloads = [hit.payload for hit in self._points(query, k, with_payload=True)]
        return [(payload["id"], payload["text"]) for payload in payloads]

    def _points(self, query: Query, k: int, *, with_payload: bool) -> Any:
        """Find the nearest points; a small shard rescores twice as many by their full vectors."""
        edge = self._library
        nearest = edge.Query.Nearest(query.vector.tolist())
        params: dict[str, Any] = {"hnsw_ef": max(self.effort, k)} if self.effort else {}
        if self.small:
            params["quantization"] = edge.QuantizationSearchParams(rescore=True, oversampling=2.0)
        search_params = edge.SearchParams(**params) if params else None
        return self._shard.query(
            edge.QueryRequest(
                limit=k, query=nearest, params=search_params, with_payload=with_payload
            )
        )


class QdrantEdgeSmall(QdrantEdge):
    """Qdrant in its small mode."""

    for_documents = ()
    small = True


class SqliteVec(Database):
    """SQLite: an exact scan of sqlite-vec's float32 rows, joined with a table of ids and texts."""

    packages = ("sqlite-vec", "apsw")
    for_vectors = for_documents = USUAL
    library = "apsw"  # many Pythons are built with an sqlite3 that loads no extensions
    COLUMNS = "embedding float[{dim}] distance_metric=cosine"
    INSERT = "INSERT INTO vectors(rowid, embedding) VALUES (?, ?)"

    def open(self, place: Place) -> None:
        self.place = place
        self._of_thread = threading.local()  # a connection is one thread's
        # Tables to create; those with USING are virtual tables of an extension.
        tables = [
            f"vectors USING vec0({self.COLUMNS.format(dim=place.dim)})",
            'documents("row" INTEGER PRIMARY KEY, id TEXT UNIQUE, text)',
        ]
        for sql in tables:
            kind = "VIRTUAL TABLE" if "USING" in sql else "TABLE"
            self._connection.execute(f"CREATE {kind} IF NOT EXISTS {sql}")

    @property
    def _connection(self) -> Any:
        """The connection of this thread, opened at its first use."""
        if not hasattr(self._of_thread, "connection"):
            from sqlite_vec import loadable_path  # of the extra `peers`

            connection = self._library.Connection(str(self.place.folder / "documents.db"))
            connection.set_busy_timeout(BUSY_MS)
            connection.enable_load_extension(True)
            connection.load_extension(loadable_path())
            self._of_thread.connection = connection
        return self._of_thread.connection

    def add(self, parts: Iterable[Batch]) -> None:
        connection = self._connection
        insert = connection.executemany
        with _immediate(connection):
            # Number the new rows after the existing ones.
            ((start,),) = connection.execute('SELECT ifnull(max("row") + 1, 0) FROM documents')
            for _, ids, texts, vectors in parts:
                rows = range(start, start + len(ids))
                start += len(ids)
                encoded = zip(rows, map(np.ndarray.tobytes, vectors), strict=True)
                insert(self.INSERT, encoded)
                if texts is None:
                    continue
                documents = zip(rows, ids, texts, strict=True)
                insert("INSERT INTO documents VALUES (?, ?, ?)", documents)

    def close(self) -> None:
        self._connection.close()

    def fetch(self, query: Query, k: int) -> Answer:
        if self.place.ability is VECTORS:
            return self._rows(query, k)
        sql = """WITH found AS (
            SELECT rowid, distance FROM vectors WHERE embedding MATCH ? AND k = ?
        )
        SELECT id, text FROM found JOIN documents ON "row" = found.rowid ORDER BY distance"""
        return list(self._connection.execute(sql, (query.vector.tobytes(), k)))

    def _rows(self, query: Query, k: int) -> Answer:
        """Find the nearest rows, without texts."""
        sql = "SELECT rowid, '' FROM vectors WHERE embedding MATCH ? AND k = ? ORDER BY distance"
        return list(self._connection.execute(sql, (query.vector.tobytes(), k)))


class SqliteVecBits(SqliteVec):
    """A scan of sqlite-vec's bits, the signs of rows; effort is the number of rescored rows."""

    for_vectors = CANDIDATE_EFFORTS
    for_documents = ()
    COLUMNS = f"{SqliteVec.COLUMNS}, signs bit[{{dim}}]"
    INSERT = "INSERT INTO vectors(rowid, embedding, signs) VALUES (?1, ?2, vec_quantize_binary(?2))"

    def _rows(self, query: Query, k: int) -> Answer:
        """Find candidates by the signs of their rows, and order them by the rows themselves."""
        sql = """WITH found AS (
            SELECT rowid AS place, embedding FROM vectors
            WHERE signs MATCH vec_quantize_binary(?1) AND k = ?2
        )
        SELECT place, '' FROM found ORDER BY vec_distance_cosine(embedding, ?1) LIMIT ?3"""
        values = (query.vector.tobytes(), max(self.effort, k), k)
        return list(self._connection.execute(sql, values))


class Leann(Database):
    """LEANN, an HNSW graph without its vectors; effort is its complexity.

    sentence-transformers encodes all documents for the graph, and at each search those that the
    search visits, in a server process whose memory is not counted: seconds on a few processors.
    `pip install leann==0.3.8` brings it, with a hundred packages.
    """

    library = "leann"
    packages = ("leann",)
    for_documents = USUAL
    callers = False

    def write(self, documents: Documents, place: Place) -> None:
        assert place.encoder is not None
        model = place.encoder.spec()["model"]
        builder = self._library.LeannBuilder("hnsw", embedding_model=model)
        for id, text in zip(documents.ids or (), documents.texts or (), strict=True):
            builder.add_text(text, {"id": id})
        builder.build_index(self._path(place))

    def open(self, place: Place) -> None:
        # Its server would outlive this process for a quarter of an hour, to be used again.
        self._searcher = self._library.LeannSearcher(self._path(place), use_daemon=False)

    def close(self) -> None:
        self._searcher.cleanup()

    def fetch(self, query: Query, k: int) -> Answer:
        return self.ask(query.text, k)

    def ask(self, text: str, k: int) -> Answer:
        options = {"complexity": self.effort} if self.effort else {}
        return [(hit.id, hit.text) for hit in self._searcher.search(text, top_k=k, **options)]

    def _path(self, place: Place) -> str:
        return str(place.folder / "documents.leann")


def _arrow_batches(place: Place, parts: Iterable[Batch]) -> Any:
    """Return an Arrow reader of batches of documents: id, text and vector.

    For vectors alone, there is no text, and ids are rows.
    """
    import pyarrow as arrow  # only LanceDB takes its tables: others are measured without it

    kinds: list[Any] = [arrow.string(), arrow.string(), arrow.list_(arrow.float32(), place.dim)]
    fields = [*zip(("id", "text", "vector"), kinds, strict=True)]
    if place.ability is VECTORS:
        fields = [("id", arrow.int64()), fields[-1]]
    schema = arrow.schema(fields)

    def batch(part: Batch) -> Any:
        values = arrow.array(part.vectors.reshape(-1))
        columns = [part.ids] if part.texts is None else [part.ids, part.texts]
        rows = arrow.FixedSizeListArray.from_arrays(values, place.dim)
        return arrow.record_batch([*map(arrow.array, columns), rows], schema)

    return arrow.RecordBatchReader.from_batches(schema, map(batch, parts))


@contextmanager
def _immediate(connection: Any) -> Iterator[None]:
    """Run a SQLite transaction that takes the lock at once: a later upgrade would not wait."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
