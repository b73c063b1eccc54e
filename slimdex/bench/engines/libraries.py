"""Libraries that index vectors in memory, each as `Engine`; they require the extra `peers`.

Each is imported when an object of its class is made, so that memory measured later is that of the
index. Its settings are from its documentation; only the effort of a search varies.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import Kind
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.system.spare_threads import cores

from .engine import GRAPH_EFFORTS, LIST_EFFORTS, Engine, Footprint

Results = tuple[Matrix, Rows]
GRAPH_LINKS = 16
GRAPH_EFFORT = 200
"""M and efConstruction of every HNSW graph, the same for all: hnswlib's defaults."""

LISTS_PER_ROOT = 2
"""Lists for each square root of the rows, of all that have lists. ScaNN's guide advises 1, FAISS's
4 or more."""
TRAINING_ROWS = 64
"""Rows for each list to train on, between FAISS's least and most."""
RESCORED = 200
"""Rows to score again by better codes, for ten results."""


def lists_for(rows: int) -> int:
    """Number of inverted lists for so many rows."""
    return max(round(LISTS_PER_ROOT * sqrt(rows)), 1)


def sample(vectors: VectorFile, lists: int) -> Matrix:
    """Return random rows, scaled to length 1, to train `lists` lists on."""
    chosen = np.random.default_rng(0).permutation(len(vectors))[: TRAINING_ROWS * lists]
    return normalize_rows(vectors.take(np.sort(chosen)))


def unit_rows(vectors: VectorFile) -> Matrix:
    """All rows (n, d), scaled to length 1."""
    return np.concatenate([normalize_rows(chunk) for chunk in vectors.scan()])


class Hnswlib(Engine):
    """hnswlib, M=16, efConstruction=200; effort is ef."""

    library = "hnswlib"
    packages = ("hnswlib",)
    for_vectors = GRAPH_EFFORTS

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
    packages = ("usearch",)
    for_vectors = GRAPH_EFFORTS
    dtype = "f32"

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        self._index = self._library.Index(
            ndim=vectors.dim,
            metric="cos",
            dtype=self.dtype,
            connectivity=GRAPH_LINKS,
            expansion_add=GRAPH_EFFORT,
        )
        keys = np.arange(len(vectors))
        for part, chunk in zip(batches(len(vectors)), vectors.scan(), strict=True):
            self._index.add(keys[part], normalize_rows(chunk))
        self.row_bytes = self._index.serialized_length / self.rows
        # Search a mapped file instead of memory.
        if self.in_files:
            self._index.save(folder / "index")
            self._index = self._library.Index.restore(folder / "index", view=True)

    def footprint(self) -> Footprint:
        if self.in_files:
            return Footprint(disk_row=self.row_bytes)
        return super().footprint()

    def search(self, queries: Matrix, k: int) -> Results:
        self._index.expansion_search = max(self.effort, k)
        matches = self._index.search(normalize_rows(queries), k)
        shape = (len(queries), k)
        return 1 - matches.distances.reshape(shape), matches.keys.reshape(shape).astype(np.int64)


class UsearchInt8(Usearch):
    """The same over rows of int8."""

    dtype = "i8"


class MappedUsearch(Usearch):
    """The same, saved and searched in the mapped file."""

    in_files = True


class FaissGraph(Engine):
    """FAISS; effort is a parameter of its search.

    Attributes
    ----------
    factory : factory string, in which {lists} is a number for the rows, and {half} half of the
        dimensions.
    parameters : of a search, with {} for the effort.
    """

    library = "faiss"
    packages = ("faiss-cpu",)
    for_vectors = GRAPH_EFFORTS
    factory = f"HNSW{GRAPH_LINKS}"
    by_distance = False
    parameters = "efSearch={}"

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        lists = lists_for(len(vectors))
        factory = self.factory.format(lists=lists, half=vectors.dim // 2)
        kind = Kind("faiss", lambda k, n: factory, by_distance=self.by_distance)
        self._index = FaissIndex(kind, vectors.dim)
        self._index.train(sample(vectors, lists))
        for chunk in vectors.scan():
            self._index.add(normalize_rows(chunk))
        self.row_bytes = self._index.nbytes / self.rows

    def set_effort(self, effort: int) -> None:
        self._index.set_parameters(self.parameters.format(effort))

    def search(self, queries: Matrix, k: int) -> Results:
        return self._index.search(normalize_rows(queries), k)


class FaissPq(FaissGraph):
    """FAISS's lists over product codes, whose candidates fp16 rows in memory score again."""

    for_vectors = LIST_EFFORTS
    factory = "IVF{lists},PQ{half}x4fs,Refine(SQfp16)"
    by_distance = True
    parameters = f"nprobe={{}},k_factor_rf={RESCORED // 10}"


class FaissRabitq(FaissPq):
    """The same over RaBitQ's codes, which require rotated rows."""

    factory = "RR,IVF{lists},RaBitQfs,Refine(SQfp16)"


class RabitqGraph(Engine):
    """rabitqlib's SymphonyQG graph with 32 links; effort is ef.

    Its rotation takes multiples of 64 dimensions only; zeros change no cosine.
    """

    library = "rabitqlib"
    packages = ("rabitqlib",)
    for_vectors = GRAPH_EFFORTS
    LINKS = 32
    WIDTH = 64

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        rows = self._pad(unit_rows(vectors))
        self._index = self._library.SymqgIndex(rows.shape[1], self.LINKS)
        self._index.build(rows, GRAPH_EFFORT, cores())
        self._index.save(str(folder / "index"))
        self.row_bytes = (folder / "index").stat().st_size / self.rows

    def search(self, queries: Matrix, k: int) -> Results:
        queries = self._pad(normalize_rows(queries))
        ask = self._index.search if len(queries) == 1 else self._index.search_batch
        rows, distances = ask(queries, k, max(self.effort, k), num_threads=cores())
        rows = np.asarray(rows).reshape(len(queries), k).astype(np.int64)
        return -np.asarray(distances, np.float32).reshape(rows.shape), rows

    def _pad(self, rows: Matrix) -> Matrix:
        """Append zeros to rows (n, d), up to the next multiple of `WIDTH` dimensions."""
        missing = -rows.shape[1] % self.WIDTH
        return np.pad(rows, ((0, 0), (0, missing)))
