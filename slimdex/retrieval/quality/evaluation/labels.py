"""Labels: their files, and the measures of each query by them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import InputError

from ...atomic_files import no_file
from ..tuning.metric_choice import ndcg

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
        qrels.setdefault(fields[0], {})[fields[-2]] = int(fields[-1])
    if not qrels:
        raise InputError(f"{path}: no labels; expected query, document and score a line")
    return qrels


def per_query(
    scores: Matrix, rows: Rows, queries: Sequence[str], ids: Sequence[str], qrels: Qrels
) -> dict[str, NDArray[np.float64]]:
    """Compute nDCG@10, MRR@10, recall@10 and recall@100 of each query, as trec_eval does.

    Parameters
    ----------
    scores, rows : (queries, depth) answers, best first, padded with -inf and -1; of several rows of
        a document the best counts. Among equal scores the greater id comes first.
    queries : the queries' ids.
    ids : the documents' ids, by row.
    """
    names = ("ndcg@10", "mrr@10", "recall@10", "recall@100")
    out = {name: np.zeros(len(queries)) for name in names}
    for i, (query, s, r) in enumerate(zip(queries, scores.tolist(), rows.tolist(), strict=True)):
        best = dict[str, float]()
        for score, row in zip(s, r, strict=True):
            if row >= 0:
                best.setdefault(ids[row], score)
        found = sorted(best, key=lambda id: (best[id], id), reverse=True)
        for name, value in zip(names, _measures(found, qrels[query]), strict=True):
            out[name][i] = value
    return out


def _measures(found: Sequence[str], labels: Mapping[str, int]) -> tuple[float, ...]:
    """nDCG@10, MRR@10, recall@10 and recall@100 of one query.

    >>> _measures(["b", "a", "c"], {"a": 1, "d": 1, "c": 0})[1:]
    (0.5, 0.5, 0.5)
    """
    relevant = {id for id, relevance in labels.items() if relevance > 0}
    first = next((place for place, id in enumerate(found[:10], 1) if id in relevant), np.inf)
    recalls = [len(relevant.intersection(found[:k])) / max(len(relevant), 1) for k in (10, 100)]
    return ndcg(found, labels), 1 / first, *recalls
