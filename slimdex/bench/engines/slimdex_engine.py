"""slimdex: its index of vectors, as `Engine`, and its collections, as `Database`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.codes.kinds import kind_named
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import ReducedIndex, train_index
from slimdex.indexes.search.rescoring import Metric, Rescorer
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.search.request import SearchRequest

from .engine import (
    CANDIDATE_EFFORTS,
    USUAL,
    Answer,
    Batch,
    Database,
    Documents,
    Engine,
    Footprint,
    Place,
    Query,
    Seconds,
)

FOLDER = "documents.index"
"""Folder of a place's collection."""


class Slimdex(Database):
    """A `Collection`, made as by `slimdex build`, which encodes the documents' passages.

    Effort is the number of rescored candidates. With `settings`, it is made of given vectors,
    without words, as the other databases are.
    """

    for_documents = USUAL
    in_files = False
    settings: Settings | None = None

    def open(self, place: Place) -> None:
        path = place.folder / FOLDER
        encoder = place.encoder or GivenEncoder(place.dim)
        if path.exists():
            self._collection = Collection.open(path, encoder)
        elif self.settings is None:
            self._collection = Collection.create(path, encoder)
        else:
            self._collection = Collection.create(
                path, encoder, self.settings, passages="off", lexical=False
            )

    def write(self, documents: Documents, place: Place) -> None:
        self.open(place)
        vectors = None if self.settings is None else documents.vectors.map()
        all_documents = map(Document, documents.ids or (), documents.texts or ())
        self._collection.add(all_documents, vectors=vectors)
        self.close()

    def add(self, parts: Iterable[Batch]) -> None:
        for part in parts:
            documents = map(Document, part.ids, part.texts or ())
            self._collection.add(documents, vectors=part.vectors)

    def close(self) -> None:
        self._collection.close()

    def fetch(self, query: Query, k: int) -> Answer:
        request = SearchRequest(
            texts=[query.text] if query.text else None,
            vectors=query.vector[None],
            limit=k,
            candidates=self.effort or None,
        )
        (hits,) = self._collection.answer(request)
        return [(hit.id, hit.text) for hit in hits]

    def ask(self, text: str, k: int) -> Answer:
        hits = self._collection.search(text, k, candidates=self.effort or None)
        return [(hit.id, hit.text) for hit in hits]

    def codes(self) -> dict[str, int]:
        codes = self._collection.index.snapshot.index.index
        return {"rows": len(codes), "code_bytes": round(codes.row_nbytes * len(codes))}


class SlimdexByVectors(Slimdex):
    """The same, made of given vectors, without words."""

    for_documents = (*USUAL, *CANDIDATE_EFFORTS)
    settings = Settings()


class SlimdexEngine(Engine):
    """slimdex's own index as `retrieval` makes it, without documents; also every FAISS kind.

    Its effort is the number of rescored candidates.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def build(self, vectors: VectorFile, folder: Path) -> Seconds:
        """Write the vectors as float16, fit reducer and metric, train and encode.

        Without rescoring no vectors are written; codes are made of the float32 rows.
        """
        settings = self._settings.checked(vectors.dim).resolved(vectors.dim, len(vectors))
        seconds: Seconds = {}
        file = vectors
        self._metric = None

        # Full vectors, for rescoring.
        if settings.rescores:
            with _stage(seconds, "write_s"):
                file = VectorFile(folder / "vectors", vectors.dim)
                for chunk in vectors.scan():
                    file.append(chunk)

        # Reducer and metric.
        with _stage(seconds, "fit_s"):
            moments = Moments.of(file.scan(), file.dim)
            reducer = settings.fit_reducer(file, moments)
            if settings.rescores:
                rescorer = Rescorer.fit(moments, settings.beta, settings.gamma)
                norms = VectorFile(folder / "norms.f32", 1, 0, FLOAT32)
                self._metric = Metric(rescorer, file, norms)

        # Codes.
        with _stage(seconds, "index_s"):
            codes = train_index(kind_named(settings.kind), reducer, file)
            self._index = ReducedIndex(
                reducer, codes, file, metric=self._metric, asked_candidates=settings.candidates
            )
            self._index.extend()
        return seconds

    def set_effort(self, effort: int) -> None:
        self._index.asked_candidates = effort
        self._index.metric = self._metric if effort else None

    def search(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Search like `ReducedIndex.search`, but rescore no more rows than the effort.

        For a larger k, fewer rows are found, and the rest is padded.
        """
        index = self._index
        depth = min(k, index.candidates) if index.metric else k
        scores, rows = index.search(queries, depth, candidates=index.candidates)
        padding = ((0, 0), (0, k - scores.shape[1]))
        padded_scores = np.pad(scores, padding, constant_values=-np.inf)
        return padded_scores, np.pad(rows, padding, constant_values=-1)

    def footprint(self) -> Footprint:
        """Codes, reducer and metric in memory; vectors and norms on disk if they are read."""
        index = self._index
        metric = self._index.metric
        row_bytes = metric.vectors.row_bytes + metric.norms.row_bytes if metric else 0
        return Footprint(
            ram_row=index.index.row_nbytes,
            ram_fixed=index.fixed_nbytes,
            disk_row=row_bytes + index.nbytes / len(index),
        )


@contextmanager
def _stage(seconds: Seconds, name: str) -> Iterator[None]:
    """Store the seconds of a stage under its name."""
    start = perf_counter()
    yield
    seconds[name] = perf_counter() - start
