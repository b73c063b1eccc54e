"""Peers: popular libraries behind the same four methods; they require the extra `peers`.

A missing peer is reported. Every adapter imports its library when it is created, so that memory
measured later is that of the index.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows
from slimdex.indexes.codes.faiss_index import FaissIndex
from slimdex.indexes.codes.kinds import from_factory
from slimdex.indexes.vectors.vector_file import VectorFile

from .engine import Footprint, Seconds

Answer = tuple[Matrix, Rows]
Nearest = tuple[list[float], list[int]]
"""Scores and rows of a query's answers."""
GRAPH_LINKS, GRAPH_EFFORT = 16, 200
"""M and efConstruction of every HNSW graph, the same for all: hnswlib's defaults."""

LISTS_PER_ROOT = 2
"""Lists for each square root of the rows, of all that have lists. ScaNN's guide advises 1, FAISS's
4 or more."""
TRAINING_ROWS = 64
"""Rows for each list to train on, between FAISS's least and most."""


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


class PeerEngine:
    """Base of adapters: times the build, and reports the index's own size if it has one."""

    effort = 0
    row_bytes: float | None = None

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
        if self.row_bytes is None:
            return Footprint()
        return Footprint(ram_row=self.row_bytes, ram_fixed=0, disk_row=self.row_bytes)


class Hnswlib(PeerEngine):
    """hnswlib, M=16, efConstruction=200; effort is ef."""

    def __init__(self) -> None:
        import hnswlib

        self._hnswlib = hnswlib

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        self._index = self._hnswlib.Index(space="ip", dim=vectors.dim)
        self._index.init_index(len(vectors), ef_construction=GRAPH_EFFORT, M=GRAPH_LINKS)
        for chunk in vectors.scan():
            self._index.add_items(normalize_rows(chunk))
        self.row_bytes = self._index.index_file_size() / self.rows

    def search(self, queries: Matrix, k: int) -> Answer:
        self._index.set_ef(max(self.effort, k))
        rows, distances = self._index.knn_query(normalize_rows(queries), k)
        return 1 - distances, rows.astype(np.int64)


class Usearch(PeerEngine):
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
        self.row_bytes = self._index.serialized_length / self.rows

    def search(self, queries: Matrix, k: int) -> Answer:
        self._index.expansion_search = max(self.effort, k)
        found = self._index.search(normalize_rows(queries), k)
        shape = (len(queries), k)
        return 1 - found.distances.reshape(shape), found.keys.reshape(shape).astype(np.int64)


class Faiss(PeerEngine):
    """FAISS; effort is a parameter of its search.

    Parameters
    ----------
    factory : factory string, in which {lists} is a number for the rows, and {half} half of the
        dimensions.
    parameters : of a search, with {} for the effort.
    """

    def __init__(self, factory: str, parameters: str) -> None:
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

    def search(self, queries: Matrix, k: int) -> Answer:
        return self._index.search(normalize_rows(queries), k)


class TurboQuant(PeerEngine):
    """turboquant-pro: PCA to d/2 and 4 bits, its ADC scan; effort is its rerank, from disk."""

    def __init__(self) -> None:
        import turboquant_pro

        self._library = turboquant_pro

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        X = unit_rows(vectors)
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


class SentenceTransformers(PeerEngine):
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
        X = unit_rows(vectors)
        self._ranges = np.vstack([X.min(axis=0), X.max(axis=0)])
        codes = self._library.quantize_embeddings(X, self._precision, ranges=self._ranges)
        self.row_bytes = codes.nbytes / self.rows
        options = self._options(1) | {"corpus_embeddings": codes, "output_index": True}
        _, _, self._index = self._search(X[:1], **options)
        if self._precision == "int8":  # usearch builds its graph even for an exact search
            self.row_bytes = self._index.serialized_length / self.rows

    def search(self, queries: Matrix, k: int) -> Answer:
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


def padded(lists: list[Nearest], k: int) -> Answer:
    """Pad answers of different lengths to two matrices."""
    scores = np.full((len(lists), k), -np.inf, dtype=np.float32)
    rows = np.full((len(lists), k), -1, dtype=np.int64)
    for i, (score, row) in enumerate(lists):
        scores[i, : len(score)], rows[i, : len(row)] = score, row
    return scores, rows
