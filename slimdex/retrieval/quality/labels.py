"""Labels of queries: their files, the labelled queries of an index, and measures by them."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log2
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows
from slimdex.system.index_names import no_file

from ..documents import id_text
from ..store.snapshot import Snapshot

Id = TypeVar("Id", int, str)
Qrels = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> relevance."""


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Read labels of a BEIR file (query, document, score; header) or a TREC file (4 columns).

    Raises `InputError` if the file is missing or empty, or a line has another form.
    """
    qrels: dict[str, dict[str, int]] = {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise InputError(no_file(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: can't be read ({error})") from error
    for number, line in enumerate(lines, start=1):
        fields = line.split("\t") if "\t" in line else line.split()
        if not fields or (number == 1 and fields[-1].isalpha()):  # a header: "score"
            continue
        if len(fields) not in (3, 4) or not re.fullmatch(r"\s*-?[0-9]+\s*", fields[-1]):
            raise InputError(
                f"{path}, line {number}: {line!r}; expected query, document and a whole number"
            )
        # In both forms, the document comes just before the score.
        qrels.setdefault(fields[0], {})[fields[-2]] = int(fields[-1])
    if not qrels:
        raise InputError(f"{path}: no labels; expected query, document and score a line")
    return qrels


@dataclass(frozen=True)
class UserQueries:
    """Queries (id, text), with or without labels: query id -> document id -> relevance."""

    queries: Sequence[tuple[str, str]]
    labels: Qrels | None = None

    @classmethod
    def of(
        cls,
        queries: Sequence[str] | Sequence[tuple[str, str]] | None,
        labels: Mapping[Any, Mapping[Any, int]] | None,
    ) -> UserQueries | None:
        """Queries as `Collection.tune` takes them; None without any."""
        if queries is None:
            if labels is not None:
                raise InputError("labels without queries; expected both")
            return None
        pairs = []
        for query in queries:
            id, text = (query, query) if isinstance(query, str) else query[:2]
            pairs.append((str(id), str(text)))
        qrels = {}
        for query_id, relevances in (labels or {}).items():
            qrels[str(query_id)] = {id_text(id): value for id, value in relevances.items()}
        return cls(pairs, qrels)


@dataclass(frozen=True)
class LabelledQuery:
    """A query with labels: first row of a document -> relevance.

    Documents that are not in the index have negative numbers instead of rows; they count as not
    found. `self_row` is the first row of the document that is the query itself, which is no answer;
    -1 if there is none.
    """

    text: str
    labels: Mapping[int, int]
    self_row: int = -1


def with_labels(
    queries: Sequence[tuple[str, str]], labels: Qrels, known: Container[str]
) -> list[tuple[str, str]]:
    """Return the queries (id, text) that have labels, even if none of their documents is known.

    Unknown documents count as not found, as in trec_eval.

    Raises `InputError` if no query has labels, or none of the documents is among the `known`.
    """
    judged = [(id, text) for id, text in queries if id in labels]
    if not judged:
        raise InputError(f"none of {len(queries)} queries has a label among {len(labels)}")
    if not any(document in known for document in chain.from_iterable(labels.values())):
        raise InputError("none of the labelled documents is in the index; expected the same ids")
    return judged


def labelled_queries(snapshot: Snapshot, user_queries: UserQueries) -> list[LabelledQuery]:
    """Return the queries that have labels; raises `InputError` as `with_labels` does."""
    assert user_queries.labels is not None
    ids = snapshot.store.ids_by_row()
    hidden = set(snapshot.hidden.tolist())
    # A document of several passages is represented by its first row, which the reverse order
    # writes last.
    rows = {id: row for row, id in reversed([*enumerate(ids)]) if row not in hidden}
    out = []
    for id, text in with_labels(user_queries.queries, user_queries.labels, rows):
        # A document that the index lacks gets a negative number of its own.
        labels = {}
        for number, (document, relevance) in enumerate(user_queries.labels[id].items(), start=1):
            labels[rows.get(document, -number)] = relevance
        self_row = rows.get(id, -1)
        # A query that is labelled as its own answer may be found.
        out.append(LabelledQuery(text, labels, -1 if self_row in labels else self_row))
    return out


def ndcg(ids: Sequence[Id], labels: Mapping[Id, int]) -> float:
    """nDCG@10 of documents, best first (Järvelin and Kekäläinen 2002).

    >>> round(ndcg([1, 0, 2], {0: 1, 2: 2}), 4)
    0.6199
    """
    ideal = _dcg(sorted(labels.values(), reverse=True))
    if not ideal:  # no document is relevant
        return 0.0
    return _dcg([labels.get(id, 0) for id in ids[:10]]) / ideal


def _dcg(relevances: Sequence[int]) -> float:
    """Sum the first ten relevances, each divided by log2(rank + 1)."""
    ranks = enumerate(relevances[:10], start=1)
    return sum(max(relevance, 0) / log2(rank + 1) for rank, relevance in ranks)


def per_query(
    scores: Matrix, rows: Rows, queries: Sequence[str], ids: Sequence[str], qrels: Qrels
) -> dict[str, NDArray[np.float64]]:
    """Compute nDCG@10, MRR@10, recall@10 and recall@100 of each query, as trec_eval does.

    Answers (queries, depth) are best first, padded with -inf and -1; of several rows of a document
    the best counts. Among equal scores the greater id comes first. `ids` are the documents', by
    row.
    """
    names = ("ndcg@10", "mrr@10", "recall@10", "recall@100")
    out = {name: np.zeros(len(queries)) for name in names}
    answers = zip(queries, scores.tolist(), rows.tolist(), strict=True)
    for i, (query, query_scores, query_rows) in enumerate(answers):
        # The best row of each document, in trec_eval's order.
        best = dict[str, float]()
        for score, row in zip(query_scores, query_rows, strict=True):
            if row >= 0:
                best.setdefault(ids[row], score)
        ranked_ids = sorted(best, key=lambda id: (best[id], id), reverse=True)
        for name, value in zip(names, _measures(ranked_ids, qrels[query]), strict=True):
            out[name][i] = value
    return out


def _measures(ids: Sequence[str], labels: Mapping[str, int]) -> tuple[float, ...]:
    """nDCG@10, MRR@10, recall@10 and recall@100 of one query.

    >>> _measures(["b", "a", "c"], {"a": 1, "d": 1, "c": 0})[1:]
    (0.5, 0.5, 0.5)
    """
    relevant = {id for id, relevance in labels.items() if relevance > 0}
    # Rank of the first relevant document; infinite if none is among ten, so that MRR is 0.
    first = next((rank for rank, id in enumerate(ids[:10], 1) if id in relevant), np.inf)
    recalls = [len(relevant.intersection(ids[:k])) / max(len(relevant), 1) for k in (10, 100)]
    return ndcg(ids, labels), 1 / first, *recalls
