"""Semantic textual similarity: pairs of sentences, people's scores, and how cosines rank them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from indexes.arrays import Matrix, normalize_rows
from indexes.errors import InputError

SEVEN = {
    "STS-B": "STSBenchmark-test.whiteningbert.tsv",
    "SICK-R": "SICK-R-test.whiteningbert.tsv",
    "STS12": "STS12.tsv",
    "STS13": "STS13.tsv",
    "STS14": "STS14.tsv",
    "STS15": "STS15.tsv",
    "STS16": "STS16.tsv",
}
"""The seven sets of both papers -> files, in the form of WhiteningBERT's release."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of sentences with people's scores.

    Attributes
    ----------
    first, second : the sentences of each pair.
    gold : (n,) scores, higher for nearer in meaning.
    subtasks : (n,) where each pair is from, where the file says.
    """

    name: str
    first: Sequence[str]
    second: Sequence[str]
    gold: NDArray[np.float64]
    subtasks: Sequence[str]

    @property
    def sentences(self) -> list[str]:
        """Each sentence once, in the order in which they come first."""
        return list(dict.fromkeys([*self.first, *self.second]))


def read_pairs(path: Path, name: str = "") -> Pairs:
    """Pairs from a table with a header and tabs: sentence1, sentence2, score or label.

    Raises
    ------
    InputError
        If there is no such file, or it has other columns.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a set of pairs") from error
    rows = list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
    gold = next((c for c in ("score", "label") if rows and c in rows[0]), None)
    if gold is None or not {"sentence1", "sentence2"} <= set(rows[0]):
        raise InputError(f"{path}: expected columns sentence1, sentence2 and score or label")
    try:
        scores = np.array([float(row[gold]) for row in rows])
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: a {gold} that is no number ({error})") from error
    return Pairs(
        name or path.stem,
        [row["sentence1"] for row in rows],
        [row["sentence2"] for row in rows],
        scores,
        [row.get("subtask") or "" for row in rows],
    )


def read_seven(folder: Path) -> list[Pairs]:
    """The papers' seven sets from a folder that has their files."""
    return [read_pairs(folder / file, name) for name, file in SEVEN.items()]


def spearman(pairs: Pairs, vectors: Mapping[str, NDArray[np.float32]]) -> float:
    """Spearman's correlation x 100 of cosines and gold, over all pairs of a set ("all").

    Parameters
    ----------
    vectors : sentence -> vector (dim,).
    """
    first = _rows(pairs.first, vectors)
    second = _rows(pairs.second, vectors)
    cosines = np.vecdot(normalize_rows(first), normalize_rows(second))
    return 100 * float(spearmanr(cosines, pairs.gold).statistic)


def _rows(sentences: Sequence[str], vectors: Mapping[str, NDArray[np.float32]]) -> Matrix:
    return np.stack([vectors[sentence] for sentence in sentences])
