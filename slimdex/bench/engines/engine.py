"""Engines: libraries that search vectors, and databases that also store documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.encoders.base import Encoder, encode_queries
from slimdex.system.atomic_files import size

Seconds = dict[str, float]
"""Stage -> seconds."""
Answer = list[tuple[str, str]]
"""(id, text) of documents, best first."""


class Ability(Enum):
    """Kinds of questions that studies ask of engines."""

    VECTORS = "find vectors by their rows, in the graph that all engines have"
    DOCUMENTS = "find texts by texts, with the library's defaults"


VECTORS, DOCUMENTS = Ability


Efforts = tuple[int, ...]
CANDIDATE_EFFORTS: Efforts = (50, 100, 200, 300, 400, 800, 1600, 3200)
GRAPH_EFFORTS: Efforts = (16, 32, 64, 96, 128, 192, 256, 512)
LIST_EFFORTS: Efforts = (8, 16, 32, 64, 128, 256, 512, 1024)
"""Efforts to measure, equally many for each kind: candidates, of graphs and of lists."""
USUAL: Efforts = (0,)
"""The library's own effort alone."""


@dataclass(frozen=True)
class Footprint:
    """Bytes as the structures report them; None if an engine can't tell.

    Attributes
    ----------
    ram_row, ram_fixed : in memory, for each vector, and independent of their number.
    disk_row : on disk, for each vector.
    """

    ram_row: float | None = None
    ram_fixed: float | None = None
    disk_row: float | None = None


class Engine:
    """Index over vectors; rows are numbered in their order, and nearer rows have higher scores.

    Attributes
    ----------
    library : the module to import, when an object is made.
    packages : required packages.
    for_vectors, for_documents : efforts to measure, in ascending order, by what the
        library can do; 0 is its own. For documents, only the first one that finds enough.
    in_files : whether the index is searched in files rather than in memory.
    callers : whether several threads may search.
    processes : whether several may have it open.
    row_bytes : the index's own size, if it has one.
    """

    library = ""
    packages: tuple[str, ...] = ()
    for_vectors: Efforts = ()
    for_documents: Efforts = ()
    in_files = False
    callers = True
    processes = True
    effort = 0
    row_bytes: float | None = None

    def __init__(self) -> None:
        self._library: Any = import_module(self.library) if self.library else None

    @classmethod
    def efforts(cls, ability: Ability) -> Efforts:
        """Efforts to measure; empty if the library can't do it."""
        return cls.for_vectors if ability is VECTORS else cls.for_documents

    def build(self, vectors: VectorFile, folder: Path) -> Seconds:
        """Index all vectors; files may be kept in `folder`."""
        self.rows = len(vectors)
        self.dim = vectors.dim
        self.folder = folder
        start = perf_counter()
        self._build(vectors, folder)
        return {"index_s": perf_counter() - start}

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        raise NotImplementedError

    def set_effort(self, effort: int) -> None:
        """Set the effort in the engine's own unit: candidates, efSearch or nprobe."""
        self.effort = effort

    def search(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Return scores and rows (q, k), best first, padded with -inf and -1."""
        raise NotImplementedError

    def footprint(self) -> Footprint:
        """Bytes kept for the vectors."""
        if self.row_bytes is None:
            return Footprint()
        return Footprint(ram_row=self.row_bytes, ram_fixed=0, disk_row=self.row_bytes)


@dataclass(frozen=True)
class Place:
    """A folder of a database, which may be empty, and what it is for.

    Attributes
    ----------
    dim : of the vectors.
    encoder : of queries; None if they are vectors.
    """

    folder: Path
    dim: int
    ability: Ability
    encoder: Encoder | None = None


class Query(NamedTuple):
    """The vector of a query (dim,), and its text if it has one."""

    vector: Matrix
    text: str = ""


class Batch(NamedTuple):
    """Some documents, with vectors (n, dim) of float32; for vectors alone, ids are rows."""

    rows: range
    ids: Sequence[Any]
    texts: Sequence[str] | None
    vectors: Matrix


@dataclass(frozen=True)
class Documents:
    """Documents with their vectors (float32), a row for each, or vectors alone."""

    vectors: VectorFile
    ids: Sequence[str] | None = None
    texts: Sequence[str] | None = None

    def parts(self) -> Iterator[Batch]:
        """Yield the documents in parts that fit in memory."""
        ids = range(len(self.vectors)) if self.ids is None else self.ids
        for part, chunk in zip(batches(len(self.vectors)), self.vectors.scan(), strict=True):
            texts = None if self.texts is None else self.texts[part]
            yield Batch(range(part.start, part.stop), ids[part], texts, chunk)


class Database(Engine):
    """Base of databases: each says how it opens a place, adds documents and finds them."""

    in_files = True
    place: Place

    def open(self, place: Place) -> None:
        """Open a place; create what it lacks."""
        raise NotImplementedError

    def add(self, parts: Iterable[Batch]) -> None:
        """Add all parts in one commit; raises if the library refuses them."""
        raise NotImplementedError

    def finish(self) -> None:
        """Index the first documents, unless the library did so when they were added."""

    def close(self) -> None:
        """Close the place, if the library can."""

    def fetch(self, query: Query, k: int) -> Answer:
        """Find the k best documents; of vectors alone, ids are rows and texts empty."""
        raise NotImplementedError

    def ask(self, text: str, k: int) -> Answer:
        """Find the ids and texts for a text, which is encoded."""
        assert self.place.encoder is not None
        return self.fetch(Query(encode_queries(self.place.encoder, [text])[0], text), k)

    def codes(self) -> dict[str, int]:
        """Number of vectors (`rows`) and bytes of their codes in memory, if the library says so."""
        return {}

    def write(self, documents: Documents, place: Place) -> None:
        """Write all documents to an empty place, as a process that ends afterwards."""
        self.open(place)
        self.add(documents.parts())
        self.finish()
        self.close()

    def _build(self, vectors: VectorFile, folder: Path) -> None:
        self.open(Place(folder, vectors.dim, VECTORS))
        self.add(Documents(vectors).parts())
        self.finish()

    def search(self, queries: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Find the rows (q, k) of one query after the other; see `Engine.search`."""
        answers = []
        for query in queries:
            answers.append([id for id, _ in self.fetch(Query(query), k)])
        return by_place(answers, k)

    def footprint(self) -> Footprint:
        """Bytes of the folder."""
        return Footprint(disk_row=size(self.folder) / self.rows)


def by_place(answers: Sequence[Sequence[int | str]], k: int) -> tuple[Matrix, Rows]:
    """Convert the rows of answers, best first, to scores and rows (q, k).

    The scores are 0, -1, -2 and so on. Answers with fewer rows are padded with -inf and -1.

    >>> scores, rows = by_place([[3, 7], ["5"]], 2)
    >>> rows.tolist(), scores.tolist()
    ([[3, 7], [5, -1]], [[0.0, -1.0], [0.0, -inf]])
    """
    rows = np.full((len(answers), k), -1, dtype=np.int64)
    for i, answer in enumerate(answers):
        rows[i, : len(answer)] = [int(row) for row in answer]
    falling = 0 - np.arange(k, dtype=np.float32)  # with a minus sign alone, the first would be -0
    return np.where(rows >= 0, falling, -np.inf).astype(np.float32), rows
