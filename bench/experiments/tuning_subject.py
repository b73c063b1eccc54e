"""Tuning's subject: a set in a collection of the default settings, and the queries that ask it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.reduced_index import ReducedIndex
from slimdex.indexes.rescoring import Rescorer
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.collection.metric_choice import Cell
from slimdex.retrieval.collection.query_pools import ASKED
from slimdex.retrieval.collection.recall_trials import NEAREST, Pool, Trials
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.base import Encoder
from slimdex.retrieval.evaluation import per_query

from ..data.datasets import Dataset
from .retrieval_study import Task

REAL = 2000
"""Real queries that are asked, at most."""
MEASURE = "ndcg@10"
DEFAULTS = Settings()


class Subject:
    """A set's documents in a collection of the default settings, and its queries.

    Parameters
    ----------
    folder : for the collection, and for what trials leave.
    settings : of the collection.
    """

    def __init__(
        self,
        task: Task,
        encoder: Encoder,
        folder: Path,
        settings: Settings = DEFAULTS,
        seed: int = 0,
    ) -> None:
        self.task, self.encoder, self.settings, self.seed = task, encoder, settings, seed
        data = task.dataset
        order = np.random.default_rng(seed).permutation(len(data.query_ids))[:REAL]
        self.asked = np.sort(order)
        self.folder = folder
        self.collection = self.built("default", range(len(data.ids)))
        self.ledger, self.snapshot = self.collection._ledger, self.collection._snapshot
        self.real = real_queries(task, self.asked)

    def built(self, name: str, rows: Sequence[int] | Rows) -> Collection:
        """A collection of some of the documents, with their vectors."""
        new = Collection.create(self.folder / name, self.encoder, self.settings, passages="off")
        vectors = self.task.vectors.take(np.asarray(rows))
        new.add(documents_of(self.task, rows), vectors=vectors)
        return new

    @cached_property
    def trials(self) -> Trials:
        """Of the collection's vectors."""
        return Trials(self.snapshot, self.collection._moments, self.folder)

    def truth(self, cell: Cell) -> Rows:
        """The ten nearest of each real query, in a metric."""
        return self.trials.exact(self.real, Rescorer.fit(self.trials.moments, *cell))

    def judged(self, rows: Rows) -> NDArray[np.float64]:
        """nDCG@10 of each real query, in points, by its ten rows."""
        return judged(self.task.dataset, self.asked, rows)

    def recall(self, index: ReducedIndex, truth: Rows) -> float:
        """Share of the true neighbours that real queries find."""
        return float(self.trials.found(index, self.real, truth)[0].mean())


def documents_of(task: Task, rows: Sequence[int] | Rows) -> Iterator[Document]:
    """Some of a task's documents, as they are encoded."""
    return (Document(task.dataset.ids[row], task.dataset.texts[row]) for row in rows)


def real_queries(task: Task, asked: Rows) -> Pool:
    """Some of a set's queries, of which those that are documents leave themselves out."""
    own = task.dataset.own_rows[asked][:, None]
    return Pool(ASKED, task.queries.take(asked), own[:, (own >= 0).any(axis=0)])


def judged(dataset: Dataset, asked: Rows, rows: Rows) -> NDArray[np.float64]:
    """nDCG@10 in points of some queries, each by its rows, best first."""
    names = [dataset.query_ids[i] for i in asked.tolist()]
    scores = np.where(rows >= 0, -np.arange(rows.shape[1], dtype=np.float64), -np.inf)
    return 100 * per_query(scores, rows, names, dataset.ids, dataset.qrels)[MEASURE]


def answers(index: ReducedIndex, pool: Pool) -> Rows:
    """The ten rows (q, 10) of each query by the search that users get, own rows left out."""
    rows = np.full((len(pool), NEAREST), -1, dtype=np.int64)
    for i, (query, own) in enumerate(zip(pool.vectors, pool.own, strict=True)):
        _, found = index.search(query[None], NEAREST, exclude=own[own >= 0])
        rows[i, : found.shape[1]] = found[0]
    return rows
