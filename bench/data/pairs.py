"""Pairs of sentences with people's scores of their likeness, and how cosines rank them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.errors import InputError

PROTOCOLS = ("all", "mean", "wmean")
LABELS = ("entailment", "neutral", "contradiction")
"""Of SNLI's pairs."""
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


CHINESE = {
    "LCQMC": "LCQMC-test.tsv",
    "BQ": "BQ-test.tsv",
    "PAWS-X": "PAWSX-zh-test.tsv",
    "STS-B zh": "STS-B-zh-test.tsv",
    "AFQMC": "AFQMC-dev.tsv",
}
"""The blog's tasks, as far as they can be had -> files."""


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
    rows = _table(path)
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


def read_sets(data: Path, language: str) -> list[Pairs]:
    """The sets of a language in a folder with `sts` and `chinese`.

    Raises
    ------
    InputError
        If the language is another one, or a file is missing.
    """
    if language == "chinese":
        return [read_pairs(data / "chinese" / file, name) for name, file in CHINESE.items()]
    if language != "english":
        raise InputError(f"language={language!r}; expected english or chinese")
    return read_seven(data / "sts")


def read_sentences(data: Path, language: str) -> list[str]:
    """Sentences of SNLI, each once, to fit reducers on; none where there are none."""
    path = data / "nli" / "snli_dev_test_sentences.txt"
    if language != "english" or not path.is_file():
        return []
    return list(dict.fromkeys(path.read_text(encoding="utf-8").splitlines()))


def read_entailment(path: Path) -> Pairs:
    """Pairs of SNLI, scored 1 where the first sentence entails the second and 0 where not.

    Raises
    ------
    InputError
        If there is no such file, or it has other columns or labels.
    """
    rows = _table(path)
    if not rows or not {"sentence1", "sentence2", "label"} <= set(rows[0]):
        raise InputError(f"{path}: expected columns sentence1, sentence2 and label")
    for number, row in enumerate(rows, start=2):
        if row["label"] not in LABELS:
            raise InputError(
                f"{path}, line {number}: label {row['label']!r}; expected {', '.join(LABELS)}"
            )
    gold = np.array([float(row["label"] == LABELS[0]) for row in rows])
    first, second = ([row[name] for row in rows] for name in ("sentence1", "sentence2"))
    return Pairs(path.stem, first, second, gold, [""] * len(rows))


def read_seven(folder: Path) -> list[Pairs]:
    """The papers' seven sets from a folder that has their files."""
    return [read_pairs(folder / file, name) for name, file in SEVEN.items()]


def spearman(pairs: Pairs, vectors: Mapping[str, NDArray[np.float32]]) -> float:
    """Spearman's correlation x 100 of cosines and gold, over all pairs of a set ("all").

    Parameters
    ----------
    vectors : sentence -> vector (dim,).
    """
    cosines = cosines_of(_rows(pairs.first, vectors), _rows(pairs.second, vectors))
    return rank_correlation(cosines, pairs)


def cosines_of(first: Matrix, second: Matrix) -> NDArray[np.float32]:
    """Cosine of each row (n, dim) with its partner."""
    cosines: NDArray[np.float32] = np.vecdot(normalize_rows(first), normalize_rows(second))
    return cosines


def rank_correlation(
    cosines: NDArray[np.float32], pairs: Pairs, protocol: str = PROTOCOLS[0]
) -> float:
    """Spearman's correlation x 100 of cosines (n,) and gold.

    Parameters
    ----------
    protocol : "all" over all pairs of the set, as both papers report; "mean" of the subtasks, or
        "wmean", weighted by their pairs (both in SentEval).
    """
    if protocol == "all" or len(set(pairs.subtasks)) < 2:
        return 100 * float(spearmanr(cosines, pairs.gold).statistic)
    subtasks = np.array(pairs.subtasks)
    masks = [subtasks == name for name in dict.fromkeys(pairs.subtasks)]
    found = [100 * float(spearmanr(cosines[m], pairs.gold[m]).statistic) for m in masks]
    weights = [int(m.sum()) for m in masks] if protocol == "wmean" else None
    return float(np.average(found, weights=weights))


def _table(path: Path) -> list[dict[str, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a set of pairs") from error
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def _rows(sentences: Sequence[str], vectors: Mapping[str, NDArray[np.float32]]) -> Matrix:
    return np.stack([vectors[sentence] for sentence in sentences])
