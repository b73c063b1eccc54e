"""`slimdex bench filters`: search under conditions that allow few documents, or all of them.

The condition is on the length of the documents' texts, a column of the collection. Agreement is
with brute force among the documents that it holds for, in the same space: the whitened cosine at
full dimension, computed here by the reducer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, batches, normalize_rows, without
from slimdex.indexes.linear import Whitening, principal_axes
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.evaluation import latency
from slimdex.retrieval.sources.given_vectors import GivenEncoder

from ..machine import limit_threads
from ..rows import ResultsFile, Row, key_of
from .retrieval_study import ANSWERS, TIMED_QUERIES, Task

SHARES = (0.0001, 0.01, 0.1, 0.5, 1.0)
"""Of the documents that a condition allows, about."""
COLUMN = "length"
SAME = 2e-6
"""Cosines that differ by less are equal, in float32."""


def measure_filters(
    task: Task,
    results: ResultsFile,
    about: Row,
    settings: Settings | None = None,
    progress: Progress = silent,
) -> None:
    """Write a row for each condition; a run replaces all rows of the one before."""
    lengths = np.array([len(text) for text in task.dataset.texts])
    conditions = {condition: share for share, condition in conditions_on(lengths)}
    queries = task.queries.take(np.arange(min(TIMED_QUERIES, len(task.queries))))
    rows = []
    with TemporaryDirectory() as folder:
        collection = built(task, lengths, settings or Settings(), Path(folder), progress)
        limit_threads(1)
        try:
            cosines = metric_cosines(collection, queries)
            for done, (condition, share) in enumerate(conditions.items(), start=1):
                facts = task.facts() | {"share": share, "condition": condition}
                columns = measured(collection, condition, queries, cosines)
                rows.append({"key": key_of(facts)} | facts | columns | about)
                progress("filters", done, len(conditions))
        finally:
            limit_threads(None)
            collection.close()
    results.replace(rows)


def conditions_on(lengths: Rows) -> Iterator[tuple[float, str]]:
    """(share, condition): the longest texts and the shortest, about that share of all.

    >>> list(conditions_on(np.arange(1, 11)))[-3:]
    [(0.5, 'length >= 6'), (0.5, 'length <= 5'), (1.0, 'length >= 1')]
    """
    ordered = np.sort(lengths)
    for share in SHARES:
        count = max(round(share * len(ordered)), 1)
        yield share, f"{COLUMN} >= {ordered[-count]}"
        if count < len(ordered):
            yield share, f"{COLUMN} <= {ordered[count - 1]}"


def measured(collection: Collection, condition: str, queries: Matrix, cosines: Matrix) -> Row:
    """Agreement of what the collection answers, and the milliseconds of each part and way."""
    allowed, index = (
        collection._store.documents.rows_where(condition, collection._state.rows),
        collection._index,
    )
    search, costs = index.filtered(), index.costs()
    rows = without(allowed, collection._hidden)
    ways: dict[str, Callable[[Matrix], Any]] = {
        "condition": lambda _: collection._store.documents.rows_where(
            condition, collection._state.rows
        ),
        "search": lambda q: index.search(q, ANSWERS, allowed, collection._hidden),
        "exact": lambda q: search.metric.nearest(q, ANSWERS, rows),
        "codes": lambda q: search.by_codes(q, ANSWERS, rows),
        "total": lambda q: collection._search_vectors(q, ANSWERS, condition),
    }
    seconds: dict[str, list[float]] = defaultdict(list)
    found: dict[str, list[Rows]] = defaultdict(list)
    for i in range(len(queries)):  # in turns, so that what else the machine does meets all alike
        for name, way in ways.items():
            start = perf_counter()
            answer = way(queries[i : i + 1])
            seconds[name].append(perf_counter() - start)
            if name != "condition":
                found[name].append(answer[1])
    row: Row = {"allowed": len(rows), "selectivity": len(rows) / len(collection)}
    row["way"] = "codes" if costs.prefer_codes(len(rows), 1) else "exact"
    for name in ("total", "codes"):
        row[f"recall@{ANSWERS}_{name}"] = recall(np.concatenate(found[name]), cosines, rows)
    for name, own in seconds.items():
        row |= {f"{measure}_{name}": value for measure, value in latency(own).items()}
    return row


def recall(found: Rows, cosines: Matrix, rows: Rows) -> float:
    """Of the k best among `rows` by cosines (q, all), the share that found (q, k) has.

    A row that is as near as the k-th is as good.
    """
    k = min(found.shape[1], len(rows))
    kth = np.partition(cosines[:, rows], len(rows) - k, axis=1)[:, [len(rows) - k]]
    own = np.where(found >= 0, np.take_along_axis(cosines, found, axis=1), -np.inf)
    return float((np.isin(found, rows) & (own >= kth - SAME)).sum() / (len(found) * k))


def built(
    task: Task, lengths: Rows, settings: Settings, folder: Path, progress: Progress
) -> Collection:
    """A collection of the task's documents and vectors, with their lengths as a column."""
    dataset, vectors = task.dataset, task.vectors.take(np.arange(len(task.vectors)))
    path = folder / "filters.index"
    collection = Collection.create(path, GivenEncoder(vectors.shape[1]), settings)
    each: Sequence[tuple[str, str, int]] = list(
        zip(dataset.ids, dataset.texts, lengths.tolist(), strict=True)
    )
    documents = [Document(id, text, metadata={COLUMN: length}) for id, text, length in each]
    collection.add(documents, vectors=vectors, progress=progress)
    return collection


def metric_cosines(collection: Collection, queries: Matrix) -> Matrix:
    """Cosines (q, rows) in the space that candidates are rescored in."""
    settings, vectors = collection._state.settings, collection._vectors
    assert settings is not None
    moments = collection._moments
    _, _, rank = principal_axes(moments, settings.beta)
    whitening = Whitening(rank, settings.beta, settings.gamma).fit_moments(moments)
    asked = normalize_rows(whitening.transform(queries))
    out = np.empty((len(queries), len(vectors)), dtype=np.float32)
    for part, chunk in zip(batches(len(vectors)), vectors.scan(), strict=True):
        out[:, part] = asked @ normalize_rows(whitening.transform(chunk)).T
    return out
