"""`slimdex bench hybrid` and `slimdex bench weight`: BM25 and semantic search together.

`hybrid` measures quality and cost of each fusion in an index, and of the one that `tune` chooses:
half of a set's labelled queries tune, and the other half judges. If a set's ids are names, as of
packages or functions, half of the queries may be those names.

`weight` searches exactly, by cosines of the encoder's vectors and the 200 best rows by BM25. For
each encoder, a constant weight of BM25 is chosen on all sets but one, and judged on that set. The
same vectors, compared with other values of gamma, show what whitening gains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import NO_ROWS, Matrix, Rows, normalize_rows, without
from slimdex.indexes.ranking import best_of
from slimdex.indexes.reducers.moments import Moments
from slimdex.indexes.search.reduced_index import ReducedIndex
from slimdex.indexes.search.rescoring import Rescorer
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.encoders.base import Encoder
from slimdex.retrieval.lexical.fusion import (
    AUTO,
    OFF,
    WEIGHT,
    Candidates,
    Fusion,
    fusion_of,
    word_bonuses,
)
from slimdex.retrieval.quality.evaluation import latency, seconds_of
from slimdex.retrieval.quality.hybrid_choice import DEPTH, FUSIONS, by_labels, fusion_orders
from slimdex.retrieval.quality.labels import LabelledQuery, ndcg
from slimdex.retrieval.search.answer import IndexRows
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.store.snapshot import Snapshot
from slimdex.system.atomic_files import size
from slimdex.system.progress import progress

from ..datasets import PerQuery, Task, encode_texts, temporary_collection
from ..machine import mapped_memory
from ..paired_measures import compare
from ..rows import ResultsFile, Row, key_of

NAMES = 1000
"""Documents searched by their names; half of them are used for tuning."""
MOST = 2000
"""Most queries that tune, and that judge."""
TIMED = 200
EXACT = "float32"
EXACT_RULE = "float32 rule"
"""Exact search of uncompressed vectors, and the same fused with BM25 by the default's rule."""
MEANING = "meaning"
WORDS = "words"
RULE = "rule"
"""The index by meaning alone, BM25, and the default."""
CODES = "rule codes"
"""The default, compared with `EXACT_RULE` instead of `EXACT`."""
SHOWN = ("rrf", "0.05", "0.1", "0.3", "0.5", RULE)
"""Fusions that are always shown."""
FIRST = 10
GAMMAS = (0.125, 0.25, 0.5)
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
"""Constants to choose from."""


class ExactIndex(ReducedIndex):
    """Exact search of the uncompressed vectors (n, d), of unit length, as deep as an index's."""

    def __init__(self, index: ReducedIndex, rows: Matrix) -> None:
        super().__init__(index.reducer, index.index, index.vectors)
        self._rows = rows
        self._depth = index.candidates

    @property
    def candidates(self) -> int:
        """Rows that an index would rescore for ten results."""
        return self._depth

    def search(
        self,
        queries: Matrix,
        k: int,
        rows: Rows | None = None,
        exclude: Rows = NO_ROWS,
        candidates: int | None = None,
    ) -> tuple[Matrix, Rows]:
        """Return scores and rows (q, k), as `ReducedIndex.search`."""
        allowed = np.arange(len(self._rows)) if rows is None else rows
        rows = without(allowed, exclude)
        cosines = normalize_rows(queries) @ self._rows[rows].T
        return best_of([(cosines, rows)], len(queries), k)


def exact_search(snapshot: Snapshot, rows: Matrix) -> Callable[[str, Matrix], Candidates]:
    """Return a function from a text and its vector (1, d) to candidates, by cosines and by BM25."""
    index = ExactIndex(snapshot.index, rows)
    searched = IndexRows(snapshot, index, index.candidates_for(DEPTH))

    def of_query(text: str, query: Matrix) -> Candidates:
        scales = searched.fusion_scales([text], query)
        (candidate_rows,) = searched.candidates(scales, query, DEPTH)
        return candidate_rows

    return of_query


def _all_rows(task: Task) -> Matrix:
    return task.vectors.take(np.arange(len(task.vectors)))


def _labelled_queries(task: Task) -> list[LabelledQuery]:
    """Return the queries of a set, with labels by row instead of id."""
    data = task.dataset
    row_of = {id: row for row, id in enumerate(data.ids)}
    queries = []
    for id, text, self_row in zip(data.query_ids, data.query_texts, data.self_rows, strict=True):
        labels = {}
        for answer, label in data.qrels[id].items():
            if answer in row_of:
                labels[row_of[answer]] = label
        queries.append(LabelledQuery(text, labels, int(self_row)))
    return queries


def _without_self(query: LabelledQuery, order: Rows) -> list[int]:
    """Return the rows in order, without the document that is the query itself."""
    return [row for row in order.tolist() if row != query.self_row]


def _row(task: Row, what: str, way: str, values: PerQuery, base: PerQuery) -> Row:
    """Return the row of a way to search, from the nDCG of each query by this way and by a base.

    `what` is the kind of queries: the set's own, or names.
    """
    known: Row = task | {"what": what, "way": way}
    quality = compare("ndcg@10", values, base)
    return known | {"key": key_of(known), "queries": len(values)} | quality


@dataclass(frozen=True)
class Questions:
    """Encoded queries with labels.

    Attributes
    ----------
    vectors : (q, d).
    are_names : (q,), whether each is a document's name.
    """

    judged: Sequence[LabelledQuery]
    vectors: Matrix
    are_names: NDArray[np.bool_]

    def part(self, chosen: NDArray[np.int64]) -> Questions:
        """Select queries by their numbers."""
        judged = [self.judged[i] for i in chosen.tolist()]
        return Questions(judged, self.vectors[chosen], self.are_names[chosen])


def measure_hybrid(
    task: Task,
    encoder: Encoder,
    cache: Path,
    results: ResultsFile,
    about: Row,
    *,
    names: bool = False,
) -> None:
    """Measure each way to search a data set, and replace its rows in `results`.

    The queries are the set's own. With `names`, the names of some documents are queries too, which
    are measured separately. `about` is added to each row.
    """
    # Tune by one half of the queries, drawn at random, and judge by the other.
    questions = _questions(task, encoder, cache, names)
    order = np.random.default_rng(0).permutation(len(questions.judged))
    tuning = questions.part(order[::2][:MOST])
    judging = questions.part(order[1::2][:MOST])

    # Build an index of the vectors, then add the words; each is timed.
    start = perf_counter()
    encoder_of_vectors = GivenEncoder(task.vectors.dim)
    with temporary_collection(
        task.dataset, task.vectors, encoder_of_vectors, lexical=False
    ) as collection:
        built = perf_counter()
        collection.index_lexical()
        costs: Row = {"build_s": built - start, "words_s": perf_counter() - built}

        # Choose a fusion by the first half, and judge every way to search by the other.
        snapshot = collection.index.snapshot
        choice = by_labels(snapshot, tuning.vectors, tuning.judged)
        costs |= _costs(collection, snapshot, judging)
        chosen = fusion_of(choice.hybrid or OFF)
        rows = list(_rows(task, snapshot, judging, "off" if chosen is None else way_of(chosen)))
    results.replace([row | costs | about for row in rows])


def _questions(task: Task, encoder: Encoder, cache: Path, names: bool) -> Questions:
    """Return a set's labelled queries; with `names`, some of them and some documents' names."""
    data = task.dataset
    judged = _labelled_queries(task)
    vectors = task.queries.take(np.arange(len(judged)))
    if not names:
        return Questions(judged, vectors, np.zeros(len(judged), dtype=bool))

    # Search some documents by their names.
    chosen = np.random.default_rng(1).permutation(len(data.ids))[:NAMES]
    texts = [data.ids[row] for row in chosen]
    named = encode_texts(encoder, texts, cache, "encoding names", queries=True)

    # Put the same number of the set's own queries before the names.
    few = np.random.default_rng(2).permutation(len(judged))[:NAMES]
    judged = [judged[i] for i in few.tolist()]
    for text, row in zip(texts, chosen, strict=True):
        judged.append(LabelledQuery(text, {int(row): 1}))
    return Questions(
        judged,
        np.concatenate([vectors[few], named.take(np.arange(len(texts)))]),
        np.arange(len(judged)) >= len(few),
    )


def way_of(fusion: Fusion) -> str:
    """Return the name of a fusion in the rows, where "auto" is the fusion that labels choose."""
    return RULE if fusion.weight == AUTO else str(fusion)


def _rows(task: Task, snapshot: Snapshot, judging: Questions, chosen: str) -> Iterator[Row]:
    """Yield a row for each way to search, for the set's own queries, and for names if any.

    `chosen` is the way chosen by the other half of the queries.
    """
    ways = [EXACT, EXACT_RULE, MEANING, WORDS, *map(way_of, FUSIONS)]
    measures = np.empty((len(ways), 3, len(judging.judged)))  # `_measures` returns three
    exact = exact_search(snapshot, normalize_rows(_all_rows(task)))

    # Measure each query by each way.
    for i, query in enumerate(judging.judged):
        vector = judging.vectors[i : i + 1]
        near, words, fused = fusion_orders(snapshot, vector, query.text)
        exact_rows = exact(query.text, vector)
        by_cosine = exact_rows.rows[exact_rows.order(exact_rows.cosines)]
        by_rule = exact_rows.rows[exact_rows.order(_by_rule(exact_rows))]
        for number, order in enumerate([by_cosine, by_rule, near, words, *fused]):
            measures[number, :, i] = _measures(_without_self(query, order), query.labels)
        progress("judging", i + 1, len(judging.judged))
    by_way = dict(zip(ways, measures, strict=True))
    by_way["auto"] = by_way[MEANING if chosen == "off" else chosen]
    by_way[CODES] = by_way[RULE]  # the same answers, but compared with another base

    # A row for each way, with its difference from exact search.
    for what, is_chosen in (("queries", ~judging.are_names), ("names", judging.are_names)):
        if not is_chosen.any():
            continue
        for way in (EXACT, EXACT_RULE, MEANING, WORDS, *SHOWN, CODES, "auto"):
            points, recall, first = by_way[way][:, is_chosen]
            base = by_way[EXACT_RULE if way == CODES else EXACT][0, is_chosen]
            yield _row(task.facts(), what, way, points, base) | {
                "fusion": chosen if way == "auto" else way,
                "recall@10": float(recall.mean()),
                "first_share": float(first.mean()),
            }


def _by_rule(rows: Candidates) -> NDArray[np.float64]:
    """Scores (n,) by the default fusion."""
    return Fusion(AUTO).scores(rows)


def _measures(documents: Sequence[int], labels: Mapping[int, int]) -> tuple[float, float, float]:
    """nDCG@10 and recall@10, of 100, and whether the first document is relevant."""
    relevant = [document for document, label in labels.items() if label > 0]
    recall = len({*documents[:FIRST]} & {*relevant}) / max(len(relevant), 1)
    first = bool(documents) and documents[0] in relevant
    return 100 * ndcg(documents, labels), 100 * recall, float(first)


def _costs(collection: Collection, snapshot: Snapshot, judging: Questions) -> Row:
    """Return bytes a row, on disk and in memory, and the times of searches.

    The keys name the search: `words` and `meaning` find rows by words or by vectors alone;
    `documents` finds rows by vectors, `fused` by both, and both read the documents.
    """
    words = snapshot.words
    rows = snapshot.state.rows
    assert words is not None
    count = min(TIMED, len(judging.judged))
    texts = [query.text for query in judging.judged[:count]]
    vectors = judging.vectors[:count]

    def p50_ms(search: Callable[[str, Matrix], object]) -> float:
        """Return the median milliseconds of a search, called with each text and vector (1, d)."""
        calls = [partial(search, text, vectors[i : i + 1]) for i, text in enumerate(texts)]
        return latency(seconds_of(calls))["p50_ms"]

    def fused(text: str, vector: Matrix) -> object:
        return collection.answer(SearchRequest(texts=[text], vectors=vector))

    def batch_ms(hybrid: str) -> float:
        """Time per query of a search for many at once, the better of two."""
        request = SearchRequest(texts=texts, vectors=vectors, hybrid=hybrid)
        return 1000 * min(seconds_of([partial(collection.answer, request)] * 2)) / count

    memory = collection.info()["memory"]
    return {
        "words_row_bytes": size(words.path) / rows,
        "words_memory_row_bytes": mapped_memory(words.path) / rows,
        "ram_row_bytes": memory["ram_bytes_per_vector"],
        "disk_row_bytes": memory["disk_bytes_per_vector"],
        "p50_ms_words": p50_ms(lambda text, _: words.search(text, 10)),
        "p50_ms_meaning": p50_ms(lambda _, vector: snapshot.index.search(vector, 10)),
        "p50_ms_fused": p50_ms(fused),
        "batch_ms_documents": batch_ms("off"),
        "batch_ms_fused": batch_ms(AUTO),
        "p50_ms_documents": p50_ms(lambda _, vector: collection.search_many(vector)),
    }


@dataclass(frozen=True)
class WeightScores:
    """nDCG@10 of a set's queries, times 100.

    Attributes
    ----------
    task : the set and its encoder.
    semantic, rule : (q,), by cosines alone and by default.
    by_weight : (q, weights), by each of `WEIGHTS`.
    by_gamma : gamma -> (q,), by cosines in that metric.
    """

    task: Row
    semantic: PerQuery
    rule: PerQuery
    by_weight: NDArray[np.float64]
    by_gamma: Mapping[float, PerQuery]


def score_weights(task: Task) -> WeightScores:
    """Search for each query of a set by every weight and gamma, exactly."""
    rows = normalize_rows(_all_rows(task))
    moments = Moments.of_rows(rows)
    metrics = [Rescorer.fit(moments, 0.0, gamma) for gamma in GAMMAS]
    norms = [metric.norms(rows) for metric in metrics]
    judged = _labelled_queries(task)
    vectors = task.queries.take(np.arange(len(judged)))
    ndcgs = np.empty((len(judged), 2 + len(WEIGHTS) + len(GAMMAS)))

    # Judge the order of each query by meaning, by the rule, by each weight and by each gamma.
    with temporary_collection(
        task.dataset, task.vectors, GivenEncoder(task.vectors.dim)
    ) as collection:
        exact = exact_search(collection.index.snapshot, rows)
        for i, query in enumerate(judged):
            vector = vectors[i : i + 1]
            exact_rows = exact(query.text, vector)
            scores: list[NDArray[np.floating]] = [exact_rows.cosines, _by_rule(exact_rows)]
            scores += _by_weights(exact_rows)
            orders = [exact_rows.rows[exact_rows.order(score)] for score in scores]

            # Rank all rows in each metric; find one more, since the query itself may be a row.
            for metric, lengths in zip(metrics, norms, strict=True):
                cosines = metric.probes(vector).scores(rows, lengths)
                _, best_rows = best_of([(cosines, np.arange(len(rows)))], 1, DEPTH + 1)
                orders.append(best_rows[0])
            ndcgs[i] = [100 * ndcg(_without_self(query, order), query.labels) for order in orders]
            progress("judging", i + 1, len(judged))

    # Take the columns apart again.
    semantic, rule, *_ = ndcgs.T
    by_weight = ndcgs[:, 2 : 2 + len(WEIGHTS)]
    by_gamma = dict(zip(GAMMAS, ndcgs[:, 2 + len(WEIGHTS) :].T, strict=True))
    return WeightScores(task.facts(), semantic, rule, by_weight, by_gamma)


def _by_weights(rows: Candidates) -> Iterator[NDArray[np.float64]]:
    """Fused scores (n,) by each of `WEIGHTS`; rare words and names count as by default."""
    default = _by_rule(rows)
    bonuses = word_bonuses(rows.bm25, rows.cosines, *rows.scales)
    for weight in WEIGHTS:
        yield default + (weight / WEIGHT - 1) * bonuses


def best_weight(each: Sequence[WeightScores]) -> int:
    """Return the index in `WEIGHTS` of the best mean nDCG over sets; the first of equal ones."""
    means = [scores.by_weight.mean(axis=0) for scores in each]
    return int(np.argmax(np.mean(means, axis=0)))


def weight_rows(each: Sequence[WeightScores]) -> Iterator[list[Row]]:
    """Yield the rows of each set and encoder: by every way, and by a constant chosen without it.

    The constant is the best for the same encoder on the other sets, if there are any.
    """
    for scores in each:
        # Choose a weight by the other sets of the same encoder.
        task = scores.task
        of_model = [other for other in each if other.task["model"] == task["model"]]
        others = [other for other in of_model if other.task["set"] != task["set"]]
        left_out = scores.by_weight[:, best_weight(others or [scores])]

        # A row for each way.
        ways = {EXACT: scores.semantic, RULE: scores.rule, "left out": left_out}
        for weight, values in zip(WEIGHTS, scores.by_weight.T, strict=True):
            ways[f"weight {weight:g}"] = values
        for gamma, values in scores.by_gamma.items():
            ways[f"gamma {gamma}"] = values
        yield [_row(task, "queries", way, ndcgs, scores.semantic) for way, ndcgs in ways.items()]
