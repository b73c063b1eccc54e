"""`slimdex bench hybrid`: quality and cost of each fusion, and of the one that `tune` chooses.

Half of a set's labelled queries tune, as `slimdex tune` would, and the other half judges. If a
set's ids are names, as of packages or functions, half of the queries may be those names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows, normalize_rows, without
from slimdex.indexes.ranking import best_of
from slimdex.indexes.search.reduced_index import NO_ROWS, ReducedIndex
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.adapters import GivenEncoder
from slimdex.retrieval.encoders.base import Encoder
from slimdex.retrieval.lexical.fusion import AUTO, OFF, Fusion, fusion_of
from slimdex.retrieval.quality.evaluation import latency, seconds_of
from slimdex.retrieval.quality.hybrid_choice import DEPTH, FUSIONS, by_labels, fused_orders
from slimdex.retrieval.quality.labels import Judged, ndcg
from slimdex.retrieval.search.answer import IndexRows, candidates
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.store.snapshot import Snapshot
from slimdex.system.atomic_files import size
from slimdex.system.progress import progress

from ..datasets import encoded
from ..machine import mapped_memory
from ..paired_measures import interval
from ..rows import ResultsFile, Row, key_of
from .retrieval_study import Task

NAMES = 1000
"""Documents searched by their names; half of them are used for tuning."""
MOST_TUNING = 2000
MOST_JUDGING = 2000
TIMED = 200
EXACT, EXACT_RULE = "float32", "float32 rule"
"""Exact search of uncompressed vectors, and the same fused with BM25 by the default's rule."""
MEANING, WORDS, RULE = "meaning", "words", "rule"
"""The index by meaning alone, BM25, and the default."""
CODES = "rule codes"
"""The default, compared with `EXACT_RULE` instead of `EXACT`."""
SHOWN = ("rrf", "0.05", "0.1", "0.3", "0.5", RULE)
"""Fusions that are always shown."""
FIRST = 10


@dataclass(frozen=True)
class Questions:
    """Encoded queries with labels.

    Attributes
    ----------
    vectors : (q, d).
    are_names : (q,), whether each is a document's name.
    """

    judged: Sequence[Judged]
    vectors: Matrix
    are_names: NDArray[np.bool_]

    def part(self, chosen: NDArray[np.int64]) -> Questions:
        """Select queries by their numbers."""
        judged = [self.judged[i] for i in chosen.tolist()]
        return Questions(judged, self.vectors[chosen], self.are_names[chosen])


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
        rows = without(np.arange(len(self._rows)) if rows is None else rows, exclude)
        return best_of([(normalize_rows(queries) @ self._rows[rows].T, rows)], len(queries), k)


def measure_hybrid(
    task: Task,
    encoder: Encoder,
    cache: Path,
    results: ResultsFile,
    about: Row,
    *,
    names: bool = False,
) -> None:
    """Replace rows for each way of a set, for its own queries and for names."""
    questions = _questions(task, encoder, cache, names)
    order = np.random.default_rng(0).permutation(len(questions.judged))
    tuning = questions.part(order[::2][:MOST_TUNING])
    judging = questions.part(order[1::2][:MOST_JUDGING])
    with TemporaryDirectory(prefix="slimdex-bench-") as folder:
        path = Path(folder) / "x.index"
        with Collection.create(path, GivenEncoder(task.vectors.dim), lexical=False) as collection:
            pairs = zip(task.dataset.ids, task.dataset.texts, strict=True)
            documents = [Document(id, text) for id, text in pairs]
            start = perf_counter()
            collection.add(documents, vectors=task.vectors.take(np.arange(len(documents))))
            seconds = {"build_s": perf_counter() - start}
            start = perf_counter()
            collection.index_lexical()
            seconds["words_s"] = perf_counter() - start
            snapshot = collection.index.snapshot
            choice = by_labels(snapshot, tuning.vectors, tuning.judged)
            costs: Row = seconds | _costs(collection, snapshot, judging)
            chosen = fusion_of(choice.hybrid or OFF)
            rows = list(_rows(task, snapshot, judging, "off" if chosen is None else way_of(chosen)))
    results.replace([row | costs | about for row in rows])


def _questions(task: Task, encoder: Encoder, cache: Path, names: bool) -> Questions:
    data = task.dataset
    place = {id: row for row, id in enumerate(data.ids)}
    judged = [
        Judged(text, {place[d]: r for d, r in data.qrels[id].items() if d in place}, int(own))
        for id, text, own in zip(data.query_ids, data.query_texts, data.own_rows, strict=True)
    ]
    vectors = task.queries.take(np.arange(len(judged)))
    if not names:
        return Questions(judged, vectors, np.zeros(len(judged), dtype=bool))
    chosen = np.random.default_rng(1).permutation(len(data.ids))[:NAMES]
    texts = [data.ids[row] for row in chosen]
    named = encoded(encoder, texts, cache, "encoding names", queries=True)
    few = np.random.default_rng(2).permutation(len(judged))[:NAMES]
    judged = [judged[i] for i in few.tolist()]
    judged += [Judged(text, {int(row): 1}) for text, row in zip(texts, chosen, strict=True)]
    return Questions(
        judged,
        np.concatenate([vectors[few], named.take(np.arange(len(texts)))]),
        np.arange(len(judged)) >= len(few),
    )


def way_of(fusion: Fusion) -> str:
    """Name of a fusion in the rows, where "auto" is the fusion that labels choose."""
    return RULE if fusion.weight == AUTO else str(fusion)


def _rows(task: Task, snapshot: Snapshot, judging: Questions, chosen: str) -> Iterator[Row]:
    """Yield a row for each way, for the set's own queries, and for names if there are any."""
    ways = [EXACT, EXACT_RULE, MEANING, WORDS, *map(way_of, FUSIONS)]
    found = np.empty((len(ways), 3, len(judging.judged)))
    vectors = normalize_rows(task.vectors.take(np.arange(len(task.vectors))))
    exact = ExactIndex(snapshot.index, vectors)

    # Measure each query by each way.
    for i, query in enumerate(judging.judged):
        vector = judging.vectors[i : i + 1]
        near, words, fused = fused_orders(snapshot, vector, query.text)
        for number, order in enumerate(
            [*_exact_orders(exact, snapshot, vector, query.text), near, words, *fused]
        ):
            documents = [row for row in order.tolist() if row != query.own]
            found[number, :, i] = _measures(documents, query.labels)
        progress("judging", i + 1, len(judging.judged))
    by_way = dict(zip(ways, found, strict=True))
    by_way["auto"] = by_way[MEANING if chosen == "off" else chosen]
    by_way[CODES] = by_way[RULE]

    # A row for each way, with its difference from float32.
    for what, asked in (("queries", ~judging.are_names), ("names", judging.are_names)):
        if not asked.any():
            continue
        for way in (EXACT, EXACT_RULE, MEANING, WORDS, *SHOWN, CODES, "auto"):
            points, recall, first = by_way[way][:, asked]
            base = EXACT_RULE if way == CODES else EXACT
            difference = points - by_way[base][0, asked]
            low, high = interval(difference[None])
            known: Row = task.facts() | {"what": what, "way": way}
            yield known | {
                "key": key_of(known),
                "queries": int(asked.sum()),
                "fusion": chosen if way == "auto" else way,
                "ndcg@10": float(points.mean()),
                "ndcg@10_delta": float(difference.mean()),
                "ndcg@10_low": float(low[0]),
                "ndcg@10_high": float(high[0]),
                "recall@10": float(recall.mean()),
                "first_share": float(first.mean()),
            }


def _exact_orders(
    exact: ExactIndex, snapshot: Snapshot, query: Matrix, text: str
) -> tuple[Rows, Rows]:
    """Rows of an encoded query (1, d) by exact search, alone and fused with BM25 by the rule."""
    rows = IndexRows(snapshot, exact, exact.candidates_for(DEPTH))
    (found,) = candidates(rows, rows.whole([text], query), query, DEPTH)
    near = found.order(found.cosines)
    fused = found.order(Fusion(AUTO).scores(found))
    return found.rows[near[found.is_near[near]]], found.rows[fused]


def _measures(documents: Sequence[int], labels: Mapping[int, int]) -> tuple[float, float, float]:
    """nDCG@10 and recall@10, of 100, and whether the first document is relevant."""
    relevant = [document for document, label in labels.items() if label > 0]
    recall = len({*documents[:FIRST]} & {*relevant}) / max(len(relevant), 1)
    first = bool(documents) and documents[0] in relevant
    return 100 * ndcg(documents, labels), 100 * recall, float(first)


def _costs(collection: Collection, snapshot: Snapshot, judging: Questions) -> Row:
    """Bytes on disk and in memory of words and vectors, and times of searches by each."""
    words = snapshot.words
    rows = snapshot.state.rows
    assert words is not None

    def p50_ms(search: Callable[[str, Matrix], object]) -> float:
        count = min(TIMED, len(judging.judged))
        asked = [(judging.judged[i].text, judging.vectors[i : i + 1]) for i in range(count)]
        return latency(seconds_of([partial(search, *each) for each in asked]))["p50_ms"]

    def both(text: str, vector: Matrix) -> object:
        return collection.answer(SearchRequest(texts=[text], vectors=vector))

    def batch_ms(hybrid: str) -> float:
        """Time per query of a search for many at once, the better of two."""
        count = min(TIMED, len(judging.judged))
        texts = [query.text for query in judging.judged[:count]]
        request = SearchRequest(texts=texts, vectors=judging.vectors[:count], hybrid=hybrid)
        return 1000 * min(seconds_of([partial(collection.answer, request)] * 2)) / count

    memory = collection.info()["memory"]
    return {
        "words_row_bytes": size(words.path) / rows,
        "words_memory_row_bytes": mapped_memory(words.path) / rows,
        "ram_row_bytes": memory["ram_bytes_per_vector"],
        "disk_row_bytes": memory["disk_bytes_per_vector"],
        "p50_ms_words": p50_ms(lambda text, _: words.search(text, 10)),
        "p50_ms_meaning": p50_ms(lambda _, vector: snapshot.index.search(vector, 10)),
        "p50_ms_fused": p50_ms(both),
        "batch_ms_documents": batch_ms("off"),
        "batch_ms_fused": batch_ms(AUTO),
        "p50_ms_documents": p50_ms(lambda _, vector: collection.search_many(vector)),
    }
