"""`slimdex bench` without a command: quality against memory and latency across settings.

Each setting is built in memory from the index's vectors, and searched for the same queries. Recall
compares it with exact search of the float32 vectors in the setting's own metric, so what is missing
from 1 is lost to compression. MRR and nDCG are by labels or, without them, by the documents that
the queries were made of. Latency is the median of single searches on one thread, from a vector to
rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.execution.threads import one_thread
from slimdex.indexes.ranking import agreement
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.settings import Settings
from slimdex.retrieval.atomic_files import temporary_parent
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.base import Encoder
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from slimdex.retrieval.index import Index
from slimdex.retrieval.quality.evaluation import labelled, latency
from slimdex.retrieval.quality.labels import Qrels, per_query, read_qrels
from slimdex.retrieval.quality.metric_choice import CELLS, Cell
from slimdex.retrieval.quality.query_pools import ASKED, document_pool, encoded
from slimdex.retrieval.quality.recall_trials import NEAREST, Pool, Trials, answers, without_own
from slimdex.retrieval.quality.settings_search import Grid, SettingsGrid
from slimdex.retrieval.search.answer import IndexRows, nearest
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.sources.source import read_pairs
from slimdex.retrieval.store.snapshot import Snapshot
from slimdex.retrieval.user_cache import cache_folder

from ..datasets import Dataset
from ..datasets import encoded as kept_vectors

SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
GRID: Grid = tuple((kind, SHARES) for kind in ("pq", "rabitq", "sq4", "sq8", "fp16", "flat"))
"""Kind -> shares of the dimensions to measure."""
TIMED_S, FEWEST = 1.0, 20
"""Seconds of the searches of a setting that are timed, and their least number."""
ENOUGH, NEARLY = 0.99, 0.01
"""Recall@10 of the settings to choose, and how far their nDCG@10 may be below the reference's."""
MADE_OF = "each asks for the document that it was made of, which recall leaves out"
Point = dict[str, Any]
"""Settings with their costs and quality."""
Given = tuple[Sequence[tuple[str, str]], Qrels]
"""Queries (id, text) and their labels."""


@dataclass(frozen=True)
class Subject:
    """An index to measure.

    Attributes
    ----------
    name : of the page.
    build : words of a command that makes or changes the index, without settings.
    present : name of the index's own settings on the page.
    given : queries with labels; None makes some of the documents.
    asked : what these queries are.
    """

    index: Index
    name: str
    build: Sequence[str]
    present: str = "now"
    given: Given | None = None
    asked: str = "queries with labels"


@dataclass(frozen=True)
class Questions:
    """Queries, and the documents that answer them.

    Attributes
    ----------
    pool : with the rows that recall leaves out.
    names : an id of each query.
    ids : of the document of each row.
    qrels : by these ids.
    about : what they are.
    """

    pool: Pool
    names: Sequence[str]
    ids: Sequence[str]
    qrels: Qrels
    about: str


@dataclass(frozen=True)
class Measured:
    """Points of an index.

    Attributes
    ----------
    facts : about the index and the queries.
    exact : the reference.
    kinds : each kind at several k, rescored and by codes alone, in the index's (beta, gamma).
    metrics : each (beta, gamma) at the index's k and kind.
    current, chosen : settings of the index, and the smallest that suffice; both among `kinds`.
    """

    facts: Mapping[str, Any]
    exact: Point
    kinds: Sequence[Point]
    metrics: Sequence[Point]
    current: Point
    chosen: Point | None

    def as_dict(self) -> dict[str, Any]:
        """All points as JSON values."""
        return {**self.facts, **{n: v for n, v in vars(self).items() if n != "facts"}}


def questions_of(subject: Subject, snapshot: Snapshot, sample: int) -> Questions:
    """Encode labelled queries, or make `sample` of them from the documents."""
    index, given = subject.index, subject.given
    if given is not None:
        judged, ids = labelled(index, *given)
        pool = Pool.asked(ASKED, encoded(index.encoder, [text for _, text in judged]))
        names = [id for id, _ in judged]
        return Questions(pool, names, ids, given[1], f"{len(judged):,} {subject.asked}")
    rng = np.random.default_rng(0)
    pool = document_pool(snapshot.opened(), index.query_encoder, sample, rng)
    ids = index.store.ids_by_row(snapshot.state.rows)
    names = [str(i) for i in range(len(pool))]
    made_of = (row[row >= 0] for row in snapshot.document_rows.documents(pool.own))
    qrels = {name: {ids[row]: 1 for row in own} for name, own in zip(names, made_of, strict=True)}
    return Questions(pool, names, ids, qrels, f"{len(pool):,} queries: {pool.name}; {MADE_OF}")


class Study:
    """Measures settings of one snapshot by the same queries; the folder is for temporary files."""

    def __init__(self, snapshot: Snapshot, questions: Questions, folder: Path) -> None:
        self.snapshot, self._questions = snapshot, questions
        self.trials = Trials(snapshot, snapshot.moments(), folder)
        self._truths = dict[Cell, Rows]()
        self._encoders = self._truth((0.0, 0.0))

    def points(self, settings: Settings, *, alone: bool = False) -> Iterator[Point]:
        """Measure settings and, with `alone`, the same without rescoring."""
        index = self.trials.built(settings)
        yield self._point(settings, index)
        if alone and settings.rescores:
            codes = ReducedIndex(index.reducer, index.index, index.vectors)
            yield self._point(replace(settings, candidates=0), codes)

    def _truth(self, cell: Cell) -> Rows:
        if cell not in self._truths:
            rescorer = Rescorer.fit(self.trials.moments, *cell)
            self._truths[cell] = self.trials.exact(self._questions.pool, rescorer)
        return self._truths[cell]

    def _point(self, settings: Settings, index: ReducedIndex) -> Point:
        pool, truth = self._questions.pool, self._truth((settings.beta, settings.gamma))
        count, hidden = NEAREST + pool.own.shape[1], self.trials.hidden
        _, found = index.search(pool.vectors, count, None, hidden, index.candidates)
        found = without_own(found, pool.own)[:, :NEAREST]
        return settings.as_dict() | {
            "bytes_per_vector": index.index.row_nbytes,
            "fixed_bytes": index.fixed_nbytes,
            "recall@10": float(agreement(found, truth, NEAREST).mean()),
            "encoder_recall@10": float(agreement(found, self._encoders, NEAREST).mean()),
            **self._by_labels(index),
            **latency(self._seconds(index)),
        }

    def _seconds(self, index: ReducedIndex) -> list[float]:
        """Time single searches on one thread, as many as fit in `TIMED_S`, at least `FEWEST`.

        The first `FEWEST` are searched once before, to warm up.
        """
        asked = Pool.asked(ASKED, self._questions.pool.vectors)
        with one_thread():
            _, seconds = answers(index, asked.part(slice(FEWEST)), self.trials.hidden)
            count = max(int(TIMED_S / float(np.median(seconds))), FEWEST)
            _, seconds = answers(index, asked.part(slice(count)), self.trials.hidden)
        return seconds

    def _by_labels(self, index: ReducedIndex) -> dict[str, float]:
        """nDCG@10 and MRR@10 of the documents found."""
        snapshot, asked = self.snapshot, self._questions
        request = SearchRequest(vectors=asked.pool.vectors, limit=NEAREST)
        rows = IndexRows(snapshot, index, index.candidates)
        scores, found, _ = nearest(rows, request, asked.pool.vectors)
        documents = snapshot.document_rows.documents(found)
        each = per_query(scores, documents, asked.names, asked.ids, asked.qrels)
        return {name: float(each[name].mean()) for name in ("ndcg@10", "mrr@10")}


def measure_settings(subject: Subject, sample: int) -> Measured:
    """Measure each kind at several k, and each (beta, gamma), of an index.

    Without labels, `sample` queries are made of the documents. Raises `InputError` if there are
    too few documents for that.
    """
    index = subject.index
    snapshot = index.snapshot.opened()
    current = snapshot.state.settings
    if current is None or not len(snapshot):
        raise InputError(f"{index.path} holds no documents; expected some to measure")
    with TemporaryDirectory(prefix="slimdex-bench-", dir=temporary_parent()) as folder:
        questions = questions_of(subject, snapshot, sample)
        study = Study(snapshot, questions, Path(folder))
        dim, cell = study.trials.vectors.dim, (current.beta, current.gamma)
        grid = SettingsGrid(study.trials, cell, grid=GRID)
        usual = current.candidates or None
        tried = [replace(each, candidates=usual) for each in grid.options]
        tried = [*dict.fromkeys([current, *tried])]
        metrics = [replace(current, beta=beta, gamma=gamma) for beta, gamma in CELLS]
        metrics = [each for each in metrics if grid.suits(each)]
        total = 1 + len(tried) + len(metrics)

        def points(settings: Sequence[Settings], done: int, *, alone: bool) -> list[Point]:
            found = list[Point]()
            for each in settings:
                found += study.points(each, alone=alone)
                progress("measuring settings", done := done + 1, total)
            return [point | {"command": command_of(point, subject.build)} for point in found]

        (exact,) = points([Settings(dim, 0.0, 0.0, "flat", 0, "identity")], 0, alone=False)
        kinds = points(tried, 1, alone=True)
        by_metric = points(metrics, 1 + len(tried), alone=False)
    facts = {
        "name": subject.name,
        "present": subject.present,
        "documents": len(snapshot),
        "rows": len(study.trials.live),
        "dim": dim,
        "model": Path(str(snapshot.state.encoder.get("model", ""))).name,
        "queries": len(questions.pool),
        "queries_are": questions.about,
    }
    return Measured(facts, exact, kinds, by_metric, kinds[0], smallest(kinds, exact))


def smallest(kinds: Sequence[Point], exact: Point) -> Point | None:
    """The fewest bytes a vector with which recall and nDCG suffice; of equal ones the fastest."""
    enough = [
        point
        for point in kinds
        if point["recall@10"] >= ENOUGH and point["ndcg@10"] >= exact["ndcg@10"] - NEARLY
    ]
    return min(enough, key=lambda p: (p["bytes_per_vector"], p["p50_ms"]), default=None)


def command_of(point: Point, build: Sequence[str]) -> str:
    """Command line that makes an index with a point's settings.

    >>> point = {"k": 96, "beta": 0.0, "gamma": 0.25, "kind": "pq", "candidates": None}
    >>> command_of(point | {"reducer": "whitening"}, ["slimdex", "reduce", "my notes"])
    "slimdex reduce 'my notes' --k 96 --beta 0 --gamma 0.25 --kind pq"
    """
    words = [*build, "--k", str(point["k"])]
    for name in ("beta", "gamma"):
        words += [f"--{name}", f"{point[name]:g}"]
    words += ["--kind", point["kind"]]
    if point["candidates"] is not None:
        words += ["--candidates", str(point["candidates"])]
    if point["reducer"] != Settings.reducer:
        words += ["--reducer", point["reducer"]]
    return join(words)


@contextmanager
def own_index(path: Path, queries: Path | None, qrels: Path | None) -> Iterator[Subject]:
    """Open an index, with the labelled queries of two files if there are any."""
    given = None
    if queries is not None and qrels is not None:
        given = read_pairs(str(queries)), read_qrels(qrels)
    with Collection.open(path) as collection:
        build = ("slimdex", "reduce", str(path))
        yield Subject(collection.index, path.absolute().name, build, given=given)


@contextmanager
def packaged(dataset: Dataset, encoder: Encoder | None = None) -> Iterator[Subject]:
    """Index docstrings in a temporary folder, without passages and words.

    The vectors are kept in the user's cache. The encoder is the default one, unless given.
    """
    encoder = encoder or TransformerEncoder()
    vectors = kept_vectors(encoder, dataset.texts, cache_folder() / "bench")
    with TemporaryDirectory(prefix="slimdex-bench-", dir=temporary_parent()) as folder:
        path = Path(folder) / dataset.name
        with Collection.create(path, encoder, passages="off", lexical=False) as collection:
            rows = np.arange(len(vectors))
            made = map(Document, dataset.ids, dataset.texts)
            collection.add(made, vectors=vectors.take(rows))
            queries = zip(dataset.query_ids, dataset.query_texts, strict=True)
            yield Subject(
                collection.index,
                "Docstrings of Python",
                ("slimdex", "build", "python:"),
                "default",
                (list(queries), dataset.qrels),
                "first paragraphs, each of which asks for the rest of its docstring",
            )
