"""`slimdex bench tune`: the choices and bounds of `slimdex tune`, compared with labels and oracles.

Each part uses the set's own queries, which `tune` does not see, unless it chooses by labels: then
it gets half of them, and the other half judges.

- metric: nDCG@10 by exact search, of the default (beta, gamma), of the choice with and without
  labels, and of the best of all cells, which only the judging half knows.
- target: the settings chosen for an agreement of .99, the agreement for real queries, and the
  smallest settings of the same grid with which real queries agree as much.
- coverage: how often the bound by 500 queries made of documents exceeds the agreement for real
  ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows
from slimdex.indexes.bounds import betting_bound
from slimdex.indexes.codes.kinds import kind_named
from slimdex.indexes.execution.progress import progress
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.base import Encoder
from slimdex.retrieval.quality.labels import Asked, per_query
from slimdex.retrieval.quality.metric_choice import CELLS, DEFAULT, Cell, chosen_metric
from slimdex.retrieval.quality.query_pools import ASKED, document_pool
from slimdex.retrieval.quality.recall_trials import ERROR, NEAREST, Pool, Trials, answers, recalls
from slimdex.retrieval.quality.settings_search import SettingsGrid
from slimdex.retrieval.quality.targets import Target
from slimdex.retrieval.quality.tuning import tune

from ..paired_measures import interval
from ..rows import ResultsFile, Row, key_of
from .retrieval_study import Task

AGREEMENT = 0.99
CERTIFIED = 500
"""Queries of each trial."""
POOL = 3000
"""Queries made of documents, from which those of each trial are drawn with replacement."""
TRIALS = 1000
"""Trials of the bound, for each setting."""
SHARES, CANDIDATES = (6, 3, 1.5), (100, 200, 400)
"""Settings whose bounds are measured: k, as d divided by these, and candidates."""
REAL = 2000
"""Maximum number of real queries."""
MEASURE = "ndcg@10"


class Subject:
    """A set's documents in a collection of the default settings, and its queries.

    Parameters
    ----------
    folder : for the collection, and for files of trials.
    """

    def __init__(self, task: Task, encoder: Encoder, folder: Path) -> None:
        self.task, self.encoder, self.folder = task, encoder, folder
        data = task.dataset
        self.asked = np.sort(np.random.default_rng(0).permutation(len(data.query_ids))[:REAL])
        self.collection = Collection.create(folder / "default", encoder, passages="off")
        vectors = task.vectors.take(np.arange(len(data.ids)))
        self.collection.add(map(Document, data.ids, data.texts), vectors=vectors)
        self.snapshot = self.collection.index.snapshot
        # A query that is a document is no answer to itself.
        own = data.own_rows[self.asked][:, None]
        self.real = Pool(ASKED, task.queries.take(self.asked), own[:, (own >= 0).any(axis=0)])

    @cached_property
    def trials(self) -> Trials:
        """Trials on the collection's vectors."""
        return Trials(self.snapshot, self.snapshot.moments(), self.folder)

    def truth(self, cell: Cell) -> Rows:
        """Ten nearest documents of each real query, in a metric."""
        return self.trials.exact(self.real, Rescorer.fit(self.trials.moments, *cell))

    def judged(self, rows: Rows) -> NDArray[np.float64]:
        """nDCG@10 of each real query, in points, by its ten rows, best first."""
        data = self.task.dataset
        names = [data.query_ids[i] for i in self.asked.tolist()]
        scores = np.where(rows >= 0, -np.arange(rows.shape[1], dtype=np.float64), -np.inf)
        return 100 * per_query(scores, rows, names, data.ids, data.qrels)[MEASURE]

    def recall(self, index: ReducedIndex, truth: Rows) -> float:
        """Share of the true neighbours that real queries find."""
        return float(self.trials.found(index, self.real, truth)[0].mean())


def measure_tuning(
    task: Task,
    encoder: Encoder,
    results: ResultsFile,
    about: Row,
) -> None:
    """Append the rows of the parts that are missing."""
    measures: dict[str, Callable[[Subject], Iterator[Row]]] = {
        "metric": measure_metric,
        "target": measure_target,
        "coverage": measure_coverage,
    }
    done = {
        row["what"] for row in results.rows.values() if row["vectors"] == task.facts()["vectors"]
    }
    missing = [part for part in measures if part not in done]
    if not missing:
        return
    with TemporaryDirectory(prefix="slimdex-bench-") as folder:
        subject = Subject(task, encoder, Path(folder))
        for part in missing:
            for row in list(measures[part](subject)):
                known = task.facts() | {"what": part, "queries": len(subject.real)} | row
                named = ("way", "k", "candidates") if part == "coverage" else ("way",)
                key = {name: known[name] for name in ("vectors", "what", *named)}
                results.append({"key": key_of(key)} | known | about)


def measure_metric(subject: Subject) -> Iterator[Row]:
    """Measure exact search in the metric of each choice, judged by half of the queries."""
    order = np.random.default_rng(0).permutation(len(subject.real))
    choosing, judging = np.sort(order[::2]), np.sort(order[1::2])
    values = {}
    for number, cell in enumerate(CELLS, start=1):
        values[cell] = subject.judged(subject.truth(cell))[judging]
        progress("metrics by labels", number, len(CELLS))
    data, index, snapshot = subject.task.dataset, subject.collection.index, subject.snapshot
    names = [data.query_ids[i] for i in subject.asked[choosing].tolist()]
    texts = [data.query_texts[i] for i in subject.asked[choosing].tolist()]
    labels = {name: data.qrels[name] for name in names}
    asked = Asked(list(zip(names, texts, strict=True)), labels)
    cells = {"default": DEFAULT}
    cells["unlabelled"] = chosen_metric(index, snapshot).cell
    cells["labels"] = chosen_metric(index, snapshot, asked).cell
    cells["oracle"] = max(values, key=lambda cell: float(values[cell].mean()))
    deltas = np.stack([values[cell] - values[DEFAULT] for cell in cells.values()])
    low, high = interval(deltas)
    for i, (way, (beta, gamma)) in enumerate(cells.items()):
        row: Row = {"way": way, "beta": beta, "gamma": gamma, "queries": len(judging)}
        row |= {MEASURE: float(values[beta, gamma].mean())}
        row |= {f"{MEASURE}_delta": float(deltas[i].mean())}
        yield row | {f"{MEASURE}_low": float(low[i]), f"{MEASURE}_high": float(high[i])}


def measure_target(subject: Subject) -> Iterator[Row]:
    """Measure the default, the choice of `tune`, and the smallest settings that suffice."""
    tuned = tune(subject.collection.index, Target(AGREEMENT))
    index = subject.snapshot.index
    settings = subject.snapshot.state.settings
    assert settings is not None
    counted = replace(settings, candidates=index.candidates)
    yield _reached(subject, "default", counted, index)
    if tuned.chosen is None or tuned.certificate is None:
        yield {"way": "tuned", "error": str(tuned.lacking)}
        return
    chosen = tuned.chosen
    index = subject.trials.built(chosen.settings)
    yield _reached(subject, "tuned", chosen.settings, index) | {
        "estimate": tuned.certificate.estimate,
        "bound": tuned.certificate.bound,
        "p50_ms": chosen.p50_ms,
        "p99_ms": chosen.p99_ms,
    }
    cell = chosen.settings.beta, chosen.settings.gamma
    if cell != DEFAULT:
        usual = replace(chosen.settings, beta=DEFAULT[0], gamma=DEFAULT[1])
        yield _reached(subject, "tuned, default metric", usual, subject.trials.built(usual))
    truth, grid = subject.truth(cell), SettingsGrid(subject.trials, cell)
    fewest = _fewest(subject, index, truth, grid.counts[-1])
    least = replace(chosen.settings, candidates=fewest)
    yield _reached(subject, "oracle's candidates", least, index)
    if (smallest := _smallest(subject, grid, truth)) is not None:
        yield _reached(subject, "oracle", *smallest)


def _reached(subject: Subject, way: str, settings: Settings, index: ReducedIndex) -> Row:
    """Columns of the agreement for real queries, and of the costs."""
    index.asked_candidates = settings.candidates
    truth = subject.truth((settings.beta, settings.gamma))
    found, _ = answers(index, subject.real)
    named = ("k", "beta", "gamma", "kind", "candidates")
    return {
        "way": way,
        **{name: getattr(settings, name) for name in named},
        "ram_bytes": index.nbytes,
        "recall@10_total": subject.recall(index, truth),
        MEASURE: float(subject.judged(found).mean()),
    }


def _fewest(subject: Subject, index: ReducedIndex, truth: Rows, most: int) -> int:
    """Fewest candidates with which real queries reach the target; `most` if none do."""
    ranks = subject.trials.ranks(index, subject.real, truth, most)
    low, high = NEAREST, most
    while low < high:
        middle = (low + high) // 2
        if recalls(ranks, middle).mean() >= AGREEMENT:
            high = middle
        else:
            low = middle + 1
    return low


def _smallest(
    subject: Subject, grid: SettingsGrid, truth: Rows
) -> tuple[Settings, ReducedIndex] | None:
    """Find the smallest settings of the grid of `tune` with which real queries reach the target."""
    options, most = grid.options, grid.counts[-1]
    for number, option in enumerate(options, start=1):
        progress("oracle", number, len(options))
        index = subject.trials.built(option)
        ranks = subject.trials.ranks(index, subject.real, truth, most)
        if recalls(ranks, most).mean() >= AGREEMENT:
            fewest = _fewest(subject, index, truth, most)
            return replace(option, candidates=fewest), index
    return None


def measure_coverage(subject: Subject) -> Iterator[Row]:
    """Compare bounds by queries made of documents with the agreement for real queries."""
    trials, (beta, gamma), rng = subject.trials, DEFAULT, np.random.default_rng(0)
    encoder = subject.encoder
    pool = document_pool(subject.snapshot, encoder, POOL, rng)
    truth = trials.exact(pool, Rescorer.fit(trials.moments, beta, gamma))
    real_truth, most = subject.truth(DEFAULT), max(CANDIDATES)
    multiple = kind_named("pq").multiple
    for number, share in enumerate(SHARES, start=1):
        k = max(round(trials.vectors.dim / share / multiple), 1) * multiple
        index = trials.built(Settings(k, beta, gamma, "pq", most))
        ranks = trials.ranks(index, pool, truth, most)
        real_ranks = trials.ranks(index, subject.real, real_truth, most)
        for candidates in CANDIDATES:
            found = recalls(real_ranks, candidates).mean()
            shares = recalls(ranks, candidates)
            bounds = [betting_bound(rng.choice(shares, CERTIFIED), ERROR) for _ in range(TRIALS)]
            row: Row = {"way": pool.name, "k": k, "candidates": candidates}
            row |= {"recall@10_total": float(found), "estimate": float(shares.mean())}
            row |= {"bound": float(np.mean(bounds)), "trials": TRIALS}
            yield row | {"too_high": int(np.sum(np.array(bounds) > found))}
        progress("coverage", number, len(SHARES))
