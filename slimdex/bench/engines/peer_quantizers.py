"""Peers that compress vectors in memory: rabitqlib and ScaNN.

Each has settings from its documentation; only the effort of a search varies.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slimdex.indexes.arrays import Matrix, batches, normalize_rows
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.atomic_files import size
from slimdex.retrieval.encoders.runtimes.processor import cores

from .peer_libraries import GRAPH_EFFORT, Answer, PeerEngine, lists_for, sample, unit_rows

ROUNDS = 10
"""Iterations of k-means, as FAISS's lists have."""
RESCORED = 200
"""Rows to score again by better codes, for ten results."""
PART = 1 << 16
"""Rows to compare with all centres at once."""


class RabitqLists(PeerEngine):
    """rabitqlib's inverted lists of 7 bits for each dimension; effort is nprobe."""

    BITS = 7

    def __init__(self) -> None:
        import rabitqlib

        self._library = rabitqlib

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

    def search(self, queries: Matrix, k: int) -> Answer:
        queries = normalize_rows(queries)
        rows, distances = self._index.search(queries, k, self.effort, num_threads=cores())
        return 1 - np.asarray(distances, np.float32), np.asarray(rows).astype(np.int64)


class RabitqGraph(PeerEngine):
    """rabitqlib's SymphonyQG graph with 32 links; effort is ef."""

    LINKS = 32

    def __init__(self) -> None:
        import rabitqlib

        self._library = rabitqlib

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        self._index = self._library.SymqgIndex(vectors.dim, self.LINKS)
        self._index.build(unit_rows(vectors), GRAPH_EFFORT, cores())
        self._index.save(str(folder / "index"))
        self.row_bytes = (folder / "index").stat().st_size / self.rows

    def search(self, queries: Matrix, k: int) -> Answer:
        queries = normalize_rows(queries)
        ask = self._index.search if len(queries) == 1 else self._index.search_batch
        rows, distances = ask(queries, k, max(self.effort, k), num_threads=cores())
        rows = np.asarray(rows).reshape(len(queries), k).astype(np.int64)
        return -np.asarray(distances, np.float32).reshape(rows.shape), rows


class Scann(PeerEngine):
    """ScaNN: a tree, anisotropic hashes, and bfloat16 rows to reorder; effort is leaves."""

    def __init__(self) -> None:
        import scann

        self._library = scann

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

    def search(self, queries: Matrix, k: int) -> Answer:
        queries = normalize_rows(queries)
        ask = {"final_num_neighbors": k, "leaves_to_search": self.effort}
        ask["pre_reorder_num_neighbors"] = max(RESCORED, k)
        if len(queries) == 1:
            rows, scores = self._index.search(queries[0], **ask)
            return np.asarray(scores, np.float32)[None], np.asarray(rows).astype(np.int64)[None]
        rows, scores = self._index.search_batched_parallel(queries, **ask)
        return np.asarray(scores, np.float32), np.asarray(rows).astype(np.int64)
