"""Libraries that index vectors in memory, each as `Engine`; they require the extra `peers`.

Each is imported when an object of its class is made, so that memory measured later is that of the
index. Its settings are from its documentation; only the effort of a search varies.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import from_factory
from slimdex.indexes.execution.spare import cores
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.atomic_files import size

from .engine import Engine, Footprint, padded

Results = tuple[Matrix, Rows]
GRAPH_LINKS, GRAPH_EFFORT = 16, 200
"""M and efConstruction of every HNSW graph, the same for all: hnswlib's defaults."""

LISTS_PER_ROOT = 2
"""Lists for each square root of the rows, of all that have lists. ScaNN's guide advises 1, FAISS's
4 or more."""
TRAINING_ROWS = 64
"""Rows for each list to train on, between FAISS's least and most."""
ROUNDS = 10
"""Iterations of k-means, as FAISS's lists have."""
RESCORED = 200
"""Rows to score again by better codes, for ten results."""
PART = 1 << 16
"""Rows to compare with all centres at once."""


def lists_for(rows: int) -> int:
    """Number of inverted lists for so many rows."""
    return max(round(LISTS_PER_ROOT * sqrt(rows)), 1)


def sample(vectors: VectorFile, lists: int) -> Matrix:
    """Rows of length 1 to train so many lists on, in their order."""
    chosen = np.random.default_rng(0).permutation(len(vectors))[: TRAINING_ROWS * lists]
    return normalize_rows(vectors.take(np.sort(chosen)))


def unit_rows(vectors: VectorFile) -> Matrix:
    """All rows (n, d), scaled to length 1."""
    return np.concatenate([normalize_rows(chunk) for chunk in vectors.scan()])


class Hnswlib(Engine):
    """hnswlib, M=16, efConstruction=200; effort is ef."""

    library = "hnswlib"

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        self._index = self._library.Index(space="ip", dim=vectors.dim)
        self._index.init_index(len(vectors), ef_construction=GRAPH_EFFORT, M=GRAPH_LINKS)
        for chunk in vectors.scan():
            self._index.add_items(normalize_rows(chunk))
        self.row_bytes = self._index.index_file_size() / self.rows

    def search(self, queries: Matrix, k: int) -> Results:
        self._index.set_ef(max(self.effort, k))
        rows, distances = self._index.knn_query(normalize_rows(queries), k)
        return 1 - distances, rows.astype(np.int64)


class Usearch(Engine):
    """usearch with the same graph; effort is expansion_search."""

    library = "usearch.index"

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self._dtype = dtype

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        self._index = self._library.Index(
            ndim=vectors.dim,
            metric="cos",
            dtype=self._dtype,
            connectivity=GRAPH_LINKS,
            expansion_add=GRAPH_EFFORT,
        )
        keys = np.arange(len(vectors))
        for part, chunk in zip(batches(len(vectors)), vectors.scan(), strict=True):
            self._index.add(keys[part], normalize_rows(chunk))
        self.row_bytes = self._index.serialized_length / self.rows

    def search(self, queries: Matrix, k: int) -> Results:
        self._index.expansion_search = max(self.effort, k)
        found = self._index.search(normalize_rows(queries), k)
        shape = (len(queries), k)
        return 1 - found.distances.reshape(shape), found.keys.reshape(shape).astype(np.int64)


class Faiss(Engine):
    """FAISS; effort is a parameter of its search.

    Parameters
    ----------
    factory : factory string, in which {lists} is a number for the rows, and {half} half of the
        dimensions.
    parameters : of a search, with {} for the effort.
    """

    library = "faiss"

    def __init__(self, factory: str, parameters: str) -> None:
        super().__init__()
        self._factory, self._parameters = factory, parameters

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        lists = lists_for(len(vectors))
        factory = self._factory.format(lists=lists, half=vectors.dim // 2)
        self._index = FaissIndex(from_factory(factory), vectors.dim)
        self._index.train(sample(vectors, lists))
        for chunk in vectors.scan():
            self._index.add(normalize_rows(chunk))
        self.row_bytes = self._index.nbytes / self.rows

    def set_effort(self, effort: int) -> None:
        self._index.set_parameters(self._parameters.format(effort))

    def search(self, queries: Matrix, k: int) -> Results:
        return self._index.search(normalize_rows(queries), k)


class TurboQuant(Engine):
    """turboquant-pro: PCA to d/2 and 4 bits, its ADC scan; effort is its rerank, from disk."""

    library = "turboquant_pro"

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        X = unit_rows(vectors)
        pca = self._library.PCAMatryoshka(input_dim=vectors.dim, output_dim=vectors.dim // 2)
        pca.fit(X)
        self._index = self._library.ADCIndex(pca.with_quantizer(bits=4)).add(X)
        np.save(folder / "originals.npy", X)
        self._originals = np.load(folder / "originals.npy", mmap_mode="r")

    def search(self, queries: Matrix, k: int) -> Results:
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


class SentenceTransformers(Engine):
    """sentence-transformers' quantised search, rescored as it does; effort is rescore_multiplier.

    Its binary search runs on FAISS, its int8 search on usearch, both exact over their codes.
    """

    library = "sentence_transformers.util.quantization"

    def __init__(self, precision: str) -> None:
        super().__init__()
        self._precision = precision
        searched_by = {"ubinary": "faiss", "int8": "usearch"}[precision]
        self._search = getattr(self._library, f"semantic_search_{searched_by}")

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        X = unit_rows(vectors)
        self._ranges = np.vstack([X.min(axis=0), X.max(axis=0)])
        codes = self._library.quantize_embeddings(X, self._precision, ranges=self._ranges)
        self.row_bytes = codes.nbytes / self.rows
        options = self._options(1) | {"corpus_embeddings": codes, "output_index": True}
        _, _, self._index = self._search(X[:1], **options)
        if self._precision == "int8":  # usearch builds its graph even for an exact search
            self.row_bytes = self._index.serialized_length / self.rows

    def search(self, queries: Matrix, k: int) -> Results:
        queries, lists = normalize_rows(queries), []
        sign = 1.0 if self.effort else -1.0  # codes alone are scored by their distance
        for part in batches(len(queries), 64):  # it takes 8 bytes for each dimension of a candidate
            options = self._options(k) | {"corpus_index": self._index}
            found, _ = self._search(queries[part], **options)
            for hits in found:
                scores = [sign * hit["score"] for hit in hits]
                lists.append((scores, [hit["corpus_id"] for hit in hits]))
        return padded(lists, k)

    def _options(self, k: int) -> dict[str, Any]:
        return {
            "corpus_precision": self._precision,
            "ranges": self._ranges,
            "top_k": k,
            "rescore": self.effort > 0,
            "rescore_multiplier": max(self.effort, 1),
        }


class RabitqLists(Engine):
    """rabitqlib's inverted lists of 7 bits for each dimension; effort is nprobe."""

    library, BITS = "rabitqlib", 7

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        X, lists = unit_rows(vectors), lists_for(len(vectors))
        kmeans = self._library.RaBitQKMeans(vectors.dim, lists, num_threads=cores(), niter=ROUNDS)
        kmeans.train(sample(vectors, lists))
        centres, nearest = kmeans.centroids, np.empty(len(X), dtype=np.uint32)
        half_squares = 0.5 * np.vecdot(centres, centres)
        for part in batches(len(X), PART):
            nearest[part] = (X[part] @ centres.T - half_squares).argmax(axis=1)
        self._index = self._library.IvfIndex(vectors.dim, len(X), lists, self.BITS, "ip")
        self._index.build(X, centres, nearest, cores())
        self._index.save(str(folder / "index"))
        self.row_bytes = (folder / "index").stat().st_size / self.rows

    def search(self, queries: Matrix, k: int) -> Results:
        queries = normalize_rows(queries)
        rows, distances = self._index.search(queries, k, self.effort, num_threads=cores())
        return 1 - np.asarray(distances, np.float32), np.asarray(rows).astype(np.int64)


class RabitqGraph(Engine):
    """rabitqlib's SymphonyQG graph with 32 links; effort is ef."""

    library, LINKS = "rabitqlib", 32

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        self._index = self._library.SymqgIndex(vectors.dim, self.LINKS)
        self._index.build(unit_rows(vectors), GRAPH_EFFORT, cores())
        self._index.save(str(folder / "index"))
        self.row_bytes = (folder / "index").stat().st_size / self.rows

    def search(self, queries: Matrix, k: int) -> Results:
        queries = normalize_rows(queries)
        ask = self._index.search if len(queries) == 1 else self._index.search_batch
        rows, distances = ask(queries, k, max(self.effort, k), num_threads=cores())
        rows = np.asarray(rows).reshape(len(queries), k).astype(np.int64)
        return -np.asarray(distances, np.float32).reshape(rows.shape), rows


class Scann(Engine):
    """ScaNN: a tree, anisotropic hashes, and bfloat16 rows to reorder; effort is leaves."""

    library = "scann"

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        X = unit_rows(vectors)
        builder = self._library.scann_ops_pybind.builder(X, 10, "dot_product")
        builder = builder.set_n_training_threads(cores())
        builder = builder.tree(lists_for(len(X)), 100, training_sample_size=min(len(X), 250_000))
        builder = builder.score_ah(2, anisotropic_quantization_threshold=0.2)
        kept = self._library.ReorderType.BFLOAT16
        self._index = builder.reorder(RESCORED, quantize=kept).build()
        self._index.serialize(str(folder))
        self.row_bytes = size(folder) / self.rows

    def search(self, queries: Matrix, k: int) -> Results:
        queries = normalize_rows(queries)
        ask = {"final_num_neighbors": k, "leaves_to_search": self.effort}
        ask["pre_reorder_num_neighbors"] = max(RESCORED, k)
        if len(queries) == 1:
            rows, scores = self._index.search(queries[0], **ask)
            return np.asarray(scores, np.float32)[None], np.asarray(rows).astype(np.int64)[None]
        rows, scores = self._index.search_batched_parallel(queries, **ask)
        return np.asarray(scores, np.float32), np.asarray(rows).astype(np.int64)
