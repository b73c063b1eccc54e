"""Measured points: settings, what they find and what they cost; of an index, or of a set.

`slimdex bench` without a command measures kinds, k, candidates, beta and gamma on an index. Each
setting is built in memory from the index's vectors, and searched for the same queries. Recall
compares it with exact search of the float32 vectors in the setting's own metric, so what is missing
from 1 is lost to compression. MRR and nDCG are by labels or, without them, by the documents that
the queries were made of; their differences from exact search are paired by query. Latency is the
median of single searches on one thread, from a vector to rows, after some that are not timed. With
labels, the default search is measured as well, from a text to documents.

`slimdex bench retrieval` measures reducers, kinds and sizes on sets, each in a process of its own,
as `peers_study` measures libraries. Sizes are shares of the model's d dimensions, so that they are
comparable between models; a new reducer or kind of the catalog needs one line in `grid`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from shlex import join
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.arrays import Rows
from slimdex.indexes.options import CANDIDATES
from slimdex.indexes.ranking import agreement, stack_results
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.base import Encoder, encode_queries
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from slimdex.retrieval.index import Index
from slimdex.retrieval.quality.cross_fitting import cross_fitted
from slimdex.retrieval.quality.evaluation import (
    latency,
    queries_with_labels,
    rank_documents,
    seconds_on_one_thread,
    times_to_documents,
)
from slimdex.retrieval.quality.labels import Qrels, read_qrels
from slimdex.retrieval.quality.metric_choice import CELLS, Cell
from slimdex.retrieval.quality.query_pools import FROM_USER, document_pool, encode_with_progress
from slimdex.retrieval.quality.recall_trials import NEAREST, Pool, Trials, answers, without_held_out
from slimdex.retrieval.quality.settings_search import Grid, possible_settings
from slimdex.retrieval.search.answer import IndexRows, nearest
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.sources.source import read_pairs
from slimdex.retrieval.store.snapshot import Snapshot
from slimdex.system.atomic_files import temporary_parent
from slimdex.system.progress import progress
from slimdex.system.threads import one_thread
from slimdex.system.user_cache import cache_folder

from ..datasets import Dataset, PerQuery, Task, temporary_collection
from ..datasets import encode_texts as stored_vectors
from ..engines.libraries import Hnswlib
from ..engines.registry import Method, exact_method, exact_settings, part
from ..paired_measures import Judge, depth_for, with_interval
from ..rows import ResultsFile, Row
from .peers_study import exact_answers, measure_methods, row_key

SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
GRID: Grid = tuple((kind, SHARES) for kind in ("pq", "rabitq", "sq4", "sq8", "fp16", "flat"))
"""Kind -> shares of the dimensions to measure."""
TIMED_S = 0.5
FEWEST = 20
"""Seconds for which the searches of a setting are timed, and their least number."""
SWEPT = (10, 20, 50, 100, 200, 400, 800, 1600, 3200)
"""Candidates at which recall and latency are measured."""
SWEPT_KINDS = ("pq", "rabitq", "sq4", "sq8")
"""Kinds whose recall depends on the candidates."""
EFFORTS = (10, 20, 40, 80, 160, 320, 640)
"""Values of hnswlib's `ef`."""
GRAPH_ROWS = 100_000
"""Largest number of rows to build a graph of, which takes about a millisecond a row."""
ENOUGH = 0.99
NEARLY = 0.01
"""Recall@10 of the settings to choose, and how far their nDCG@10 may be below the reference's."""
MADE_OF = "each asks for the document that it was made of, which recall leaves out"
DEFAULTS = Settings(gamma=0.25, kind="pq", candidates=CANDIDATES)
"""Defaults of an index of up to 60,000 documents when its rows were measured, but for gamma, which
is 0 since; used for larger sets too so that rows compare."""
PLAIN = Settings(beta=0.0, gamma=0.0, reducer="identity")
"""No reducer."""
REDUCERS: dict[str, Settings] = {
    "slimdex": DEFAULTS,
    "PCA": Settings(beta=1.0, gamma=0.0),
    "rotation": Settings(beta=0.0, gamma=0.0),
    "BERT-whitening": Settings(beta=1.0, gamma=1.0),
    "truncate": Settings(beta=0.0, gamma=0.0, reducer="truncate"),
    "random projection": Settings(beta=0.0, gamma=0.0, reducer="random"),
}
"""Name -> way of reducing dimensions; the name also stands for its (beta, gamma)."""
OTHERS: dict[str, Settings] = {
    "all but the top": Settings(beta=0.0, gamma=0.0, reducer="all-but-the-top"),
    "tied autoencoder": Settings(beta=0.0, gamma=0.0, reducer="autoencoder"),
    "flow": Settings(beta=0.0, gamma=0.0, reducer="flow"),
}
"""The same, for half of the dimensions only."""
CURVE = ((1, 12), (1, 6), (1, 4), (1, 2), (2, 3))
"""k as shares of d."""
Point = dict[str, Any]
"""Settings with their costs and quality."""
LabelledQueries = tuple[Sequence[tuple[str, str]], Qrels]
"""Queries (id, text) and their labels."""


@dataclass(frozen=True)
class Subject:
    """An index to measure.

    Attributes
    ----------
    name : of the page.
    build : words of a command that makes or changes the index, without settings.
    present : name of the index's own settings on the page.
    labelled_queries : queries with labels; None makes some of the documents.
    queries_are : what these queries are.
    """

    index: Index
    name: str
    build: Sequence[str]
    present: str = "now"
    labelled_queries: LabelledQueries | None = None
    queries_are: str = "queries with labels"


@dataclass(frozen=True)
class IndexPoints:
    """Points of an index.

    Attributes
    ----------
    facts : about the index and the queries.
    exact : the reference.
    kinds : each kind at several k, rescored and by codes alone, in the index's (beta, gamma).
    curves : the index's k in each of `SWEPT_KINDS`, and the chosen settings, at each of `SWEPT`.
    graph : hnswlib over the float32 vectors at each of `EFFORTS`; empty if it is not installed.
    metrics : each (beta, gamma) at the index's k and kind.
    dimensions : each (k, gamma) at the index's beta and kind.
    held_out : gain of the best of `metrics`, chosen and judged by different queries.
    search : the default search, from a text to documents; None without labels.
    current, chosen : settings of the index, and the smallest that suffice; both among `kinds`.
    """

    facts: Mapping[str, Any]
    exact: Point
    kinds: Sequence[Point]
    curves: Sequence[Point]
    graph: Sequence[Point]
    metrics: Sequence[Point]
    dimensions: Sequence[Point]
    held_out: Point
    search: Point | None
    current: Point
    chosen: Point | None

    def as_dict(self) -> dict[str, Any]:
        """All points as JSON values."""
        values = {**self.facts, **vars(self)}
        del values["facts"]
        return values


def questions_of(subject: Subject, snapshot: Snapshot, sample: int) -> tuple[Dataset, Pool]:
    """Encode labelled queries, or make `sample` of them from the documents, without texts.

    The set has ids by row, and no documents' texts. The pool has the rows that recall leaves out.
    """
    index = subject.index
    if subject.labelled_queries is not None:
        queries, qrels = subject.labelled_queries
        judged, ids = queries_with_labels(index, queries, qrels)
        names = [id for id, _ in judged]
        texts = [text for _, text in judged]
        pool = Pool.of_queries(FROM_USER, encode_with_progress(index.encoder, texts))
        about = f"{len(judged):,} {subject.queries_are}"
    else:
        rng = np.random.default_rng(0)
        pool = document_pool(snapshot.open(), index.encoder_if_any, sample, rng)
        ids = index.store.ids_by_row()
        names = [*map(str, range(len(pool)))]
        texts = []

        # The answer of a query is the document it was made from; rows are padded with -1.
        made_of = snapshot.document_rows.documents(pool.held_out)
        qrels = {}
        for name, documents in zip(names, made_of, strict=True):
            qrels[name] = {ids[document]: 1 for document in documents[documents >= 0]}
        about = f"{len(pool):,} queries: {pool.name}; {MADE_OF}"

    dataset = Dataset(
        name=about,
        ids=ids,
        texts=(),
        query_ids=names,
        query_texts=texts,
        qrels=qrels,
        self_rows=np.full(len(pool), -1),
    )
    return dataset, pool


class Study:
    """Measures settings of a subject's snapshot by the same queries.

    Without labels, `sample` of these are made of the documents. The folder is for temporary files.
    """

    def __init__(self, subject: Subject, snapshot: Snapshot, sample: int, folder: Path) -> None:
        self.subject = subject
        self.snapshot = snapshot
        self.data, self.pool = questions_of(subject, snapshot, sample)
        self._folder = folder
        self.trials = Trials(snapshot, folder)
        self._truths = dict[Cell, Rows]()  # (beta, gamma) -> exact answers in that metric
        self._encoders = self._truth((0.0, 0.0))  # by the cosines of the encoder's vectors
        self.ndcg = dict[Settings, PerQuery]()  # of all points, the reference first

    def measure(
        self,
        stage: str,
        several: Sequence[Settings],
        efforts: Sequence[int | None] = (None,),
        *,
        timed: bool = True,
    ) -> list[Point]:
        """Measure settings at each number of candidates: 0 is codes alone, None the settings' own.

        Settings that rescore nothing are measured at the first of these alone.
        """
        points = list[Point]()
        for done, settings in enumerate(several, start=1):
            start = perf_counter()
            index = self.trials.build(settings)
            seconds = perf_counter() - start
            for effort in efforts if settings.rescores else efforts[:1]:
                # Search the same codes with another number of candidates.
                count = settings.candidates if effort is None else effort
                metric = None if count == 0 else index.metric
                searched = ReducedIndex(
                    index.reducer, index.index, index.vectors, metric=metric, asked_candidates=count
                )
                point = self._point(replace(settings, candidates=count), searched, timed=timed)
                command = command_of(point, self.subject.build)
                points.append(point | {"build_s": seconds, "command": command})
            progress(f"measuring {stage}", done, len(several))
        return points

    def graph(self) -> Iterator[Point]:
        """Measure hnswlib over the float32 vectors, unless it is missing or there are many rows.

        Its recall is that of the encoder's order.
        """
        live = self.trials.live
        pool = self.pool
        if len(live) > GRAPH_ROWS or find_spec("hnswlib") is None:
            return
        rows = VectorFile(self._folder / "live", self.trials.vectors.dim, 0, FLOAT32)
        rows.append(self.trials.vectors.take(live))
        graph = Hnswlib()
        seconds = graph.build(rows, self._folder)["index_s"]
        depth = min(NEAREST + pool.held_out.shape[1], len(live))
        for effort in EFFORTS:
            # Find its answers, for recall, as rows of the index.
            graph.set_effort(effort)
            _, graph_rows = graph.search(pool.vectors, depth)
            matches = without_held_out(live[graph_rows], pool.held_out)[:, :NEAREST]

            # Time single searches.
            k = min(NEAREST, depth)
            calls = [partial(graph.search, query[None], k) for query in pool.vectors]
            yield {
                "effort": effort,
                "bytes_per_vector": graph.row_bytes,
                "build_s": seconds,
                "recall@10": float(agreement(matches, self._encoders, NEAREST).mean()),
                **latency(seconds_on_one_thread(calls)),
            }

    def _truth(self, cell: Cell) -> Rows:
        """Return the exact answers (q, 10) in the metric of a cell, which is (beta, gamma)."""
        if cell not in self._truths:
            rescorer = Rescorer.fit(self.trials.moments, *cell)
            self._truths[cell] = self.trials.exact(self.pool, rescorer)
        return self._truths[cell]

    def _point(self, settings: Settings, index: ReducedIndex, *, timed: bool) -> Point:
        """Measure the quality and the costs of an index in some settings."""
        # Measure recall of the exact answers in the same metric, and quality by labels.
        truth = self._truth((settings.beta, settings.gamma))
        matches = self._nearest(index)
        recalls = agreement(matches, truth, NEAREST)
        labels = self._by_labels(index)
        self.ndcg[settings] = labels["ndcg@10"]
        # Exact search, which is measured first, is the reference.
        reference = next(iter(self.ndcg.values()))

        # Measure memory and time.
        fixed = index.fixed_nbytes
        memory = index.index.row_nbytes * len(index) + fixed
        return settings.as_dict() | {
            "bytes_per_vector": index.index.row_nbytes,
            "fixed_bytes": fixed,
            "memory_bytes": memory,
            "disk_bytes": memory + index.vectors.nbytes,
            **with_interval("recall@10", recalls),
            "encoder_recall@10": float(agreement(matches, self._encoders, NEAREST).mean()),
            "mrr@10": float(labels["mrr@10"].mean()),
            "ndcg@10": float(labels["ndcg@10"].mean()),
            **with_interval("ndcg@10_delta", labels["ndcg@10"] - reference),
            **(latency(self._seconds(index)) if timed else {}),
        }

    def _nearest(self, index: ReducedIndex) -> Rows:
        """Return the rows (q, 10) that an index finds for the queries, without their own."""
        pool = self.pool
        hidden = self.trials.hidden
        depth = NEAREST + pool.held_out.shape[1]
        # A search for more rows would rescore more candidates than the index is set to.
        if 0 < index.candidates < depth:
            matches, _ = answers(index, pool, hidden)
            return matches
        _, matches = index.search(pool.vectors, depth, None, hidden, index.candidates)
        return without_held_out(matches, pool.held_out)[:, :NEAREST]

    def _seconds(self, index: ReducedIndex) -> list[float]:
        """Time single searches on one thread, as many as fit in `TIMED_S`, at least `FEWEST`.

        The first `FEWEST` are searched once before, to warm up.
        """
        queries = Pool.of_queries(FROM_USER, self.pool.vectors)
        with one_thread():
            _, seconds = answers(index, queries.part(slice(FEWEST)), self.trials.hidden)
            count = max(int(TIMED_S / float(np.median(seconds))), FEWEST)
            _, seconds = answers(index, queries.part(slice(count)), self.trials.hidden)
        return seconds

    def _by_labels(self, index: ReducedIndex) -> dict[str, PerQuery]:
        """Return nDCG@10, MRR@10 and other measures of each query, by the documents found."""
        request = SearchRequest(vectors=self.pool.vectors, limit=NEAREST)
        searched = IndexRows(self.snapshot, index, index.candidates)
        best = nearest(searched, request, self.pool.vectors)
        documents = self.snapshot.document_rows.documents(best.rows)
        return self.data.measures(best.scores, documents)


def measure_settings(subject: Subject, sample: int) -> IndexPoints:
    """Measure an index in the settings that `IndexPoints` names.

    Without labels, `sample` queries are made of the documents. Raises `InputError` if there are
    too few documents for that.
    """
    index = subject.index
    snapshot = index.snapshot.open()
    current = snapshot.state.settings
    if current is None or not len(snapshot):
        raise InputError(f"{index.path} holds no documents; expected some to measure")
    with TemporaryDirectory(prefix="slimdex-bench-", dir=temporary_parent()) as folder:
        study = Study(subject, snapshot, sample, Path(folder))
        tried, metrics, dimensions = _settings_to_try(study, current)

        # The reference, and each kind at several k, of which the smallest that suffices is chosen.
        (exact,) = study.measure("exact search", [exact_settings(study.trials.vectors.dim)])
        kinds = study.measure("kinds and k", tried, (None, 0))
        chosen = smallest(kinds, exact)

        # Candidates of the present and the chosen settings, and the metric around the present ones.
        counts = [count for count in SWEPT if count <= len(study.trials.live)]
        curves = study.measure("candidates", swept(tried, current, chosen), counts)
        cells = study.measure("beta and gamma", metrics, timed=False)
        sizes = study.measure("k and gamma", dimensions, timed=False)
        return IndexPoints(
            facts=_facts(subject, study),
            exact=exact,
            kinds=kinds,
            curves=curves,
            graph=[*study.graph()],
            metrics=cells,
            dimensions=sizes,
            held_out=gain_of_choice(study, metrics, current),
            search=measure_search(index, study, study.ndcg[current]),
            current=kinds[0],
            chosen=chosen,
        )


def _settings_to_try(study: Study, current: Settings) -> tuple[list[Settings], ...]:
    """Return the settings to measure: kinds at several k, (beta, gamma), and (k, gamma)."""
    possible = possible_settings(study.trials, (current.beta, current.gamma), GRID)
    usual = current.candidates or None
    kinds = {current: None}  # each once, the present settings first
    for option in possible:
        kinds[replace(option, candidates=usual)] = None
    metrics = [replace(current, beta=beta, gamma=gamma) for beta, gamma in CELLS]
    sizes = sorted({each.k for each in kinds if each.k and each.kind == current.kind})
    gammas = sorted({gamma for _, gamma in CELLS})
    dimensions = [replace(current, k=k, gamma=gamma) for k, gamma in product(sizes, gammas)]
    suits = study.trials.suits
    return [*kinds], [*filter(suits, metrics)], [*filter(suits, dimensions)]


def _facts(subject: Subject, study: Study) -> dict[str, Any]:
    """Facts about the index and the queries."""
    snapshot = study.snapshot
    return {
        "name": subject.name,
        "present": subject.present,
        "documents": len(snapshot),
        "rows": len(study.trials.live),
        "dim": study.trials.vectors.dim,
        "model": Path(str(snapshot.state.encoder.get("model", ""))).name,
        "queries": len(study.pool),
        "queries_are": study.data.name,
    }


def swept(tried: Sequence[Settings], current: Settings, chosen: Point | None) -> list[Settings]:
    """Return the settings to measure at each number of candidates in `SWEPT`."""
    kinds_and_ks = {(kind, current.k) for kind in SWEPT_KINDS}
    if chosen is not None:
        kinds_and_ks.add((chosen["kind"], chosen["k"]))
    return [each for each in tried if (each.kind, each.k) in kinds_and_ks and each.rescores]


def gain_of_choice(study: Study, metrics: Sequence[Settings], current: Settings) -> Point:
    """Return the gain of the best metric over the current one, by queries that did not choose it.

    The queries that choose and those that judge are drawn at random.
    """
    order = np.random.default_rng(0).permutation(len(study.ndcg[current]))
    ndcgs = np.stack([study.ndcg[settings] for settings in metrics], axis=1)
    gains = cross_fitted(ndcgs[order]) - study.ndcg[current][order]
    return with_interval("ndcg@10_delta", gains)


def measure_search(index: Index, study: Study, by_meaning: PerQuery) -> Point | None:
    """Measure the default search of an index; None if the queries have no texts.

    `by_meaning` is the nDCG@10 of each query by semantic search.
    """
    texts = study.data.query_texts
    if not texts:
        return None

    # Measure quality.
    rankings = []
    for text, vector in zip(texts, study.pool.vectors, strict=True):
        rankings.append(rank_documents(index, text, vector[None], NEAREST))
    ndcg = study.data.measures(*stack_results(rankings, NEAREST))["ndcg@10"]

    # Time the whole search, and the encoding that is part of it.
    calls = [partial(encode_queries, index.encoder, [text]) for text in texts]
    return {
        "has_words": index.state.words is not None,
        "ndcg@10": float(ndcg.mean()),
        **with_interval("ndcg@10_delta", ndcg - by_meaning),
        "p50_ms": times_to_documents(index, texts)["text_to_documents_p50_ms"],
        "encoding_p50_ms": latency(seconds_on_one_thread(calls))["p50_ms"],
    }


def smallest(kinds: Sequence[Point], exact: Point) -> Point | None:
    """Return the point of the least memory in all whose recall and nDCG suffice.

    Of equal points it is the fastest; None if no point suffices.
    """
    least_ndcg = exact["ndcg@10"] - NEARLY
    finds_enough = [point for point in kinds if point["recall@10"] >= ENOUGH]
    enough = [point for point in finds_enough if point["ndcg@10"] >= least_ndcg]
    return min(enough, key=lambda p: (p["memory_bytes"], p["p50_ms"]), default=None)


def command_of(point: Point, build: Sequence[str]) -> str:
    """Return the command line that makes an index with a point's settings.

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
def labelled_index(path: Path, queries: Path | None, qrels: Path | None) -> Iterator[Subject]:
    """Open an index, with the labelled queries of two files if there are any."""
    labelled_queries = None
    if queries is not None and qrels is not None:
        labelled_queries = read_pairs(str(queries)), read_qrels(qrels)
    with Collection.open(path) as collection:
        build = ("slimdex", "reduce", str(path))
        yield Subject(
            collection.index, path.absolute().name, build, labelled_queries=labelled_queries
        )


@contextmanager
def docstrings_index(dataset: Dataset, encoder: Encoder | None = None) -> Iterator[Subject]:
    """Index docstrings in a temporary folder, without passages.

    The vectors are kept in the user's cache. The encoder is the default one, unless given.
    """
    encoder = encoder or TransformerEncoder()
    vectors = stored_vectors(encoder, dataset.texts, cache_folder() / "bench")
    with temporary_collection(dataset, vectors, encoder) as collection:
        queries = zip(dataset.query_ids, dataset.query_texts, strict=True)
        yield Subject(
            index=collection.index,
            name="Docstrings of Python",
            build=("slimdex", "build", "python:"),
            present="default",
            labelled_queries=(list(queries), dataset.qrels),
            queries_are="first paragraphs, each of which asks for the rest of its docstring",
        )


def measure_grid(task: Task, results: ResultsFile, about: Row, *, quick: bool = False) -> None:
    """Append the rows of the grid that are missing; `about` are columns of every row."""
    methods = grid(task.vectors.dim, len(task.vectors), quick=quick)
    stage = f"{task.dataset.name}, {task.model}"
    judge = None
    for done, method in enumerate(methods):
        keys = {}
        for effort in method.efforts:
            key = row_key(task, method, effort)
            if _is_missing(results, key):
                keys[method, effort] = key
        if keys:
            # Compute exact answers, which takes a while, only if a row is missing.
            progress(stage, done, len(methods))
            judge = judge or Judge(task.dataset, *exact_answers(task, depth_for(task.dataset)))
            for contender in measure_methods(task, keys, judge):
                results.append(contender.columns() | about)
    progress(stage, len(methods), len(methods))


def _is_missing(results: ResultsFile, key: str) -> bool:
    """Return whether there is no row, or one that failed."""
    row = results.rows.get(key)
    return row is None or "error" in row


def grid(dim: int, rows: int, *, quick: bool = False) -> list[Method]:
    """Methods for `rows` vectors of `dim` dimensions, uncompressed first."""
    methods = [exact_method(dim), *_usual(dim, rows)]
    for name, like in (REDUCERS | OTHERS).items():
        methods.append(_method(name, like, part(dim, 2), "pq", CANDIDATES))
    if not quick:
        methods += _more(dim)
    distinct = {repr(method): method for method in methods}
    return [*distinct.values()]


def _usual(dim: int, rows: int) -> Iterator[Method]:
    """Floats, scalar and binary quantisers without reduction; slimdex at 1/64 to 1/192."""
    yield _method("float16", PLAIN, dim, "fp16")
    yield _method("int8", PLAIN, dim, "sq8")
    yield _method("RaBitQ", PLAIN, dim, "rabitq", CANDIDATES)
    efforts = (0, *sorted({CANDIDATES, max(rows // 100, 10)}))  # 1% of the rows
    for of in (2, 3, 4, 6):
        settings = Settings(k=part(dim, of), gamma=DEFAULTS.gamma, kind="pq")
        yield Method("slimdex", settings, efforts)


def _more(dim: int) -> Iterator[Method]:
    """Quality against k alone, other index kinds, and codes alone."""
    half = part(dim, 2)
    quarter = part(dim, 4)
    for share, of in CURVE:
        for name, settings in REDUCERS.items():
            if name != "rotation":  # it differs from PCA by the mean only
                yield _method(name, settings, part(dim, of, share), "flat")
    for kind in ("rabitq", "sq4", "sq8", "fp16", "ivf-pq", "hnsw"):
        yield _method("slimdex", DEFAULTS, half, kind, CANDIDATES)

    # Codes alone, at 1/8, 1/16 and 1/32.
    for k in (half, quarter):
        for kind in ("sq8", "sq4"):
            yield _method("slimdex", DEFAULTS, k, kind)
    yield _method("int4", PLAIN, dim, "sq4")


def _method(name: str, like: Settings, k: int, kind: str, rescored: int = 0) -> Method:
    """Make a method with some settings' reducer, by codes alone and, if asked, rescored."""
    settings = replace(like, k=k, kind=kind, candidates=rescored)
    return Method(name, settings, (0, rescored) if rescored else (0,))
