"""mteb's vectors in a slimdex index: a backend for its `SearchEncoderWrapper`."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.indexes.arrays import LARGEST, Matrix, as_matrix, batches, normalize_rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.settings import Settings

from ..atomic_files import STORED_ENDINGS, file_name
from ..catalog.state import State
from ..quality.evaluation.measures import DEPTH, Ranking, deep, measured
from ..sources.given_vectors import as_given, check_vectors
from ..storage.index_files import encode_rows, fit

Answers = tuple[list[list[float]], list[list[int]]]
"""Scores of each query, best first, and the numbers of their documents."""
Similarity = Callable[[Any, Any], Any]
"""Queries (q, d) and documents (n, d) -> similarities (q, n)."""
COMPARED = 64
"""Documents, and queries, used to compare a model's similarity with the cosine."""
GAP = 1e-3
"""Difference below which cosines may be in any order."""


@dataclass(frozen=True)
class Sizes:
    """Description and sizes of an index, in bytes.

    Attributes
    ----------
    documents, vectors : counts; each passage of a text has a vector.
    settings : the effective ones, which a small corpus may have changed: see `notes`.
    candidates : vectors rescored per query.
    stored : format of the full vectors on disk: fp16 or int8.
    ram_bytes : codes, reducer and metric, without ids and the system's caches.
    ram_bytes_per_vector, ram_bytes_fixed : its parts, as in `slimdex info`.
    disk_bytes : full vectors and derived files, without texts.
    float32_bytes : uncompressed vectors in memory.
    compression : float32_bytes / ram_bytes.
    """

    documents: int
    vectors: int
    dimensions: int
    settings: Mapping[str, Any]
    candidates: int
    stored: str
    ram_bytes: int
    ram_bytes_per_vector: float
    ram_bytes_fixed: int
    disk_bytes: int
    float32_bytes: int
    compression: float
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        index: ReducedIndex,
        settings: Settings,
        documents: int,
        disk_bytes: int,
        stored: str,
        notes: tuple[str, ...] = (),
    ) -> Sizes:
        """Sizes of an index with its effective settings."""
        uncompressed = 4 * len(index) * index.vectors.dim
        return cls(
            documents=documents,
            vectors=len(index),
            dimensions=index.vectors.dim,
            settings=settings.as_dict(),
            candidates=index.candidates,
            stored=stored,
            ram_bytes=index.nbytes,
            ram_bytes_per_vector=index.index.row_nbytes,
            ram_bytes_fixed=index.fixed_nbytes,
            disk_bytes=disk_bytes,
            float32_bytes=uncompressed,
            compression=uncompressed / index.nbytes,
            notes=notes,
        )


class SlimdexIndex:
    """An index backend for mteb, with codes in memory and the full vectors on disk.

    mteb requests 1,000 documents, and an index would rescore more than these; users request ten.
    The first of each answer are therefore those that a user gets, as `slimdex eval` measures them.
    The others follow, ranked by their codes.

    Parameters
    ----------
    settings : how vectors are reduced and quantised; by default `Settings()`.
    vector_dtype : format of the full vectors on disk: fp16, or int8 in half the bytes.
    folder : parent of the temporary files; by default the system's.

    Attributes
    ----------
    sizes : those of the index built last; None if there is none, or it has no documents.

    Raises
    ------
    InputError
        For invalid settings, vectors that are not finite or differ in dimension, and a model whose
        similarity is not the cosine.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        vector_dtype: str = "fp16",
        folder: str | Path | None = None,
    ) -> None:
        if vector_dtype not in STORED_ENDINGS:
            raise InputError(
                f"vector_dtype={vector_dtype!r}; expected {' or '.join(STORED_ENDINGS)}"
            )
        self.settings, self.vector_dtype = settings or Settings(), vector_dtype
        self.sizes: Sizes | None = None
        self._parent = folder
        self._ids: list[str] = []
        self._sample: Matrix = np.empty((0, 0), np.float32)  # of the documents
        self._state: State | None = None  # set by the first documents, like the next two
        self._folder: Path | None = None
        self._removed: Callable[[], object] | None = None
        self._index: ReducedIndex | None = None  # of all added documents

    def add_documents(self, embeddings: Any, idxs: Sequence[str]) -> None:
        """Add vectors (n, d), an array or a tensor, of the documents with these ids."""
        given = as_given(_on_cpu(embeddings))
        if len(given) != len(idxs):
            raise InputError(f"{len(given)} vectors for {len(idxs)} ids; expected equal numbers")
        if self._state is not None and given.dim != self._state.dim:
            raise InputError(
                f"vectors of {given.dim} dimensions; expected {self._state.dim}, as those before"
            )
        check_vectors(given)
        folder, state = self._begun(given.dim)
        vectors = state.vector_file(folder, len(self._ids))
        for part in batches(len(given)):
            vectors.append(given.rows(part.start, part.stop))
        if not self._ids:
            self._sample = given.rows(0, min(COMPARED, len(given)))
        self._ids.extend(idxs)
        self._index = None

    def search(
        self,
        embeddings: Any,
        top_k: int,
        similarity_fn: Similarity,
        top_ranked: Mapping[str, list[str]] | None = None,
        query_idx_to_id: Mapping[int, str] | None = None,
    ) -> Answers:
        """Scores and documents for queries (q, d): cosines in the metric of the settings.

        Documents are numbered in the order of addition. Raises `InputError` for lists of documents
        to rerank, which no index searches.
        """
        if top_ranked is not None:
            raise InputError("top_ranked: lists to rerank; expected a task that searches a corpus")
        queries = _on_cpu(embeddings)
        index = self.build()
        if index is None:
            return [[] for _ in queries], [[] for _ in queries]
        queries = as_matrix(queries, dim=index.vectors.dim, name="queries", largest=LARGEST)
        _check_similarity(similarity_fn, queries[:COMPARED], self._sample)
        found = []
        for query in queries:
            search = partial(index.search, query[None])
            codes = None if index.metric is None else partial(search, candidates=0)
            found.append(deep(searches_for(top_k, search, codes)))
        return [scores for scores, _ in found], [rows for _, rows in found]

    def build(self) -> ReducedIndex | None:
        """Return the index of the added documents, fitted when first needed; None without
        documents."""
        if self._index is None and self._state is not None and self._folder is not None:
            state, folder, count = self._state, self._folder, len(self._ids)
            self.settings.check_count(count)
            vectors = state.vector_file(folder, count)
            moments = Moments.of(vectors.scan(), state.dim)
            settings, notes = self.settings.fitted(moments)
            state = fit(folder, state, vectors, moments, settings)
            index, _ = encode_rows(folder, state, vectors)
            disk = sum(path.stat().st_size for path in folder.iterdir())
            self.sizes = Sizes.of(index, settings, count, disk, self.vector_dtype, tuple(notes))
            self._index = index
        return self._index

    def clear(self) -> None:
        """Forget all documents and delete the files; keep `sizes`."""
        self._index = self._state = self._folder = None
        self._ids = []
        if self._removed is not None:
            self._removed()
        self._removed = None

    def _begun(self, dim: int) -> tuple[Path, State]:
        """Return the folder, created with the first documents, and the state of the index in it."""
        if self._state is None or self._folder is None:
            settings = self.settings.checked(dim)
            vectors = file_name("vectors", 1, STORED_ENDINGS[self.vector_dtype])
            self._folder = Path(tempfile.mkdtemp(prefix="slimdex-mteb-", dir=self._parent))
            self._removed = weakref.finalize(self, shutil.rmtree, self._folder, True)
            self._state, self.sizes = State({}, dim, settings, vectors=vectors), None
        return self._folder, self._state


def searches_for(
    top_k: int, search: Ranking, codes: Ranking | None, more: int = 0
) -> list[tuple[Ranking, int]]:
    """Searches whose results answer mteb: those that `slimdex eval` measures, then the codes.

    `codes` is the search without rescoring; None if `search` does not rescore. `more` is the
    number of results that mteb drops.
    """
    searches = measured(search, min(top_k, DEPTH + more), more)
    return [*searches, (codes or search, top_k)] if top_k > DEPTH + more else searches


def _on_cpu(embeddings: Any) -> Any:
    """Convert an array, or a tensor of any type, to an array."""
    return (
        embeddings.detach().float().cpu().numpy() if hasattr(embeddings, "detach") else embeddings
    )


def _check_similarity(similarity: Similarity, queries: Matrix, documents: Matrix) -> None:
    """Raise `InputError` if a similarity ranks documents (n, d) differently from the cosine.

    mteb does not tell its backends the similarity, so it is computed on examples; a dot product
    or a distance of unit vectors ranks equally.
    """
    documents = documents[documents.any(axis=1)]
    if not len(documents) or not len(queries):
        return
    told = np.asarray(_on_cpu(similarity(queries, documents)), dtype=np.float64)
    cosines = normalize_rows(queries) @ normalize_rows(documents).T
    least = 1e-4 * float(np.ptp(told))
    for own, cosine in zip(told, cosines, strict=True):
        is_nearer = cosine[:, None] - cosine[None] > GAP
        if (is_nearer & (own[:, None] < own[None] - least)).any():
            raise InputError(
                "similarity: the model's ranks these vectors differently from their cosine; "
                "expected a model that compares by cosine, or vectors of unit length"
            )
