"""Labels: their files, and the measures of each query by them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import InputError

Qrels = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> relevance."""


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Read labels of a BEIR file (query, document, score; header) or a TREC file (4 columns).

    Raises `InputError` if the file is missing or empty, or a line has another form.
    """
    qrels: dict[str, dict[str, int]] = {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: can't be read ({error})") from error
    for number, line in enumerate(lines, start=1):
        fields = line.split("\t") if "\t" in line else line.split()
        if not fields or (number == 1 and fields[-1].isalpha()):  # a header: "score"
            continue
        if len(fields) not in (3, 4) or not _is_int(fields[-1]):
            raise InputError(
                f"{path}, line {number}: {line!r}; expected query, document and a whole number"
            )
        qrels.setdefault(fields[0], {})[fields[-2]] = int(fields[-1])
    if not qrels:
        raise InputError(f"{path}: no labels; expected query, document and score a line")
    return qrels


def per_query(
    scores: Matrix, rows: Rows, queries: Sequence[str], ids: Sequence[str], qrels: Qrels
) -> dict[str, NDArray[np.float64]]:
    """Compute nDCG@10, MRR@10, recall@10 and recall@100 of each query with ir-measures.

    Parameters
    ----------
    scores, rows : (queries, depth) answers, best first, padded with -inf and -1; of several rows of
        a document the best counts.
    queries : the queries' ids.
    ids : the documents' ids, by row.
    """
    import ir_measures
    from ir_measures import RR, R, nDCG

    chosen = {nDCG @ 10: "ndcg@10", RR @ 10: "mrr@10", R @ 10: "recall@10", R @ 100: "recall@100"}
    run = {
        query: _places([(ids[row], score) for score, row in zip(s, r, strict=True) if row >= 0])
        for query, s, r in zip(queries, scores.tolist(), rows.tolist(), strict=True)
    }
    labels = {query: dict(qrels[query]) for query in queries}
    place = {query: i for i, query in enumerate(queries)}
    out = {name: np.zeros(len(queries)) for name in chosen.values()}  # nothing found is zero
    for metric in ir_measures.iter_calc(list(chosen), labels, run):
        out[chosen[metric.measure]][place[metric.query_id]] = metric.value
    return out


def _places(answers: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Map ids to distinct scores, from answers, best first; of repeated ids the first counts.

    Among equal scores the greater id comes first, as in trec_eval, for all measures: those that
    ir-measures computes itself would otherwise prefer the smaller id.

    >>> _places([("a", 0.5), ("b", 0.5), ("a", 0.1)])
    {'b': 2.0, 'a': 1.0}
    """
    found = dict[str, float]()
    for id, score in answers:
        found.setdefault(id, score)
    order = sorted(found, key=lambda id: (found[id], id), reverse=True)
    return {id: float(len(order) - place) for place, id in enumerate(order)}


def _is_int(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]+", text.strip()) is not None
