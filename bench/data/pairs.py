"""Pairs of sentences with people's scores of their likeness, and how cosines rank them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from slimdex.indexes.arrays import Matrix, normalize_rows
from slimdex.indexes.errors import InputError

PROTOCOLS = ("all", "mean", "wmean")
"""Correlation over all pairs of a set, or its mean over the set's subtasks, weighted by pairs.

MTEB and Reimers & Gurevych (2019) report the first, the code of Huang et al. (2021) the mean, and
those of Li et al. (2020) and Su et al. (2021) the weighted mean.
"""


@dataclass(frozen=True)
class SetFiles:
    """The files of a set.

    Attributes
    ----------
    judged : pairs whose order is compared with people's.
    fitted_too : other parts, whose sentences a reducer fitted on the set sees as well.
    in_subtasks : whether the papers judge each of its subtasks.
    """

    judged: str
    fitted_too: tuple[str, ...] = ()
    in_subtasks: bool = False


SEVEN = {
    "STS-B": SetFiles("STSBenchmark-test.tsv", ("STSBenchmark-train.tsv", "STSBenchmark-dev.tsv")),
    "SICK-R": SetFiles("SICK-R-test.tsv", ("SICK-R-train.tsv", "SICK-R-trial.tsv")),
    "STS12": SetFiles("STS12.tsv", in_subtasks=True),
    "STS13": SetFiles("STS13.cased.tsv", in_subtasks=True),
    "STS14": SetFiles("STS14.cased.tsv", in_subtasks=True),
    "STS15": SetFiles("STS15.cased.tsv", in_subtasks=True),
    "STS16": SetFiles("STS16.cased.tsv", in_subtasks=True),
}
"""The seven sets of both papers, in their own case where that can be had: STS12 is lower-cased."""
CHINESE = {
    "LCQMC": SetFiles("LCQMC-test.tsv", ("LCQMC-dev.tsv",)),
    "BQ": SetFiles("BQ-test.tsv", ("BQ-dev.tsv",)),
    "PAWS-X": SetFiles("PAWSX-zh-test.tsv", ("PAWSX-zh-dev.tsv",)),
    "STS-B zh": SetFiles("STS-B-zh-test.tsv", ("STS-B-zh-train.tsv", "STS-B-zh-dev.tsv")),
    "AFQMC": SetFiles("AFQMC-dev.tsv"),
}
"""The blog's tasks, as far as they can be had."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of sentences with people's scores.

    Attributes
    ----------
    first, second : the sentences of each pair.
    gold : (n,) scores, higher for nearer in meaning.
    subtasks : (n,) where each pair is from, where the file says.
    others : sentences of the set's other parts, each as often as it occurs.
    """

    name: str
    first: Sequence[str]
    second: Sequence[str]
    gold: NDArray[np.float64]
    subtasks: Sequence[str]
    others: Sequence[str] = ()

    @property
    def sentences(self) -> list[str]:
        """Each judged sentence once, in the order in which they come first."""
        return list(dict.fromkeys([*self.first, *self.second]))

    @property
    def protocols(self) -> tuple[str, ...]:
        """How its correlation can be taken: over all pairs, and by subtasks if it has any."""
        return PROTOCOLS if len(set(self.subtasks)) > 1 else PROTOCOLS[:1]


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
        return _read_files(data / "chinese", CHINESE)
    if language != "english":
        raise InputError(f"language={language!r}; expected english or chinese")
    return read_seven(data / "sts")


def read_sentences(data: Path, language: str) -> list[str]:
    """Sentences of SNLI, each once, to fit reducers on; none where there are none."""
    path = data / "nli" / "snli_dev_test_sentences.txt"
    if language != "english" or not path.is_file():
        return []
    return list(dict.fromkeys(path.read_text(encoding="utf-8").splitlines()))


def read_seven(folder: Path) -> list[Pairs]:
    """The papers' seven sets from a folder that has their files."""
    return _read_files(folder, SEVEN)


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
    protocol : one of `PROTOCOLS`; a set without subtasks has one correlation by all of them.
    """
    if protocol not in pairs.protocols[1:]:
        return 100 * float(spearmanr(cosines, pairs.gold).statistic)
    subtasks = np.array(pairs.subtasks)
    masks = [subtasks == name for name in dict.fromkeys(pairs.subtasks)]
    found = [100 * float(spearmanr(cosines[m], pairs.gold[m]).statistic) for m in masks]
    weights = [int(m.sum()) for m in masks] if protocol == "wmean" else None
    return float(np.average(found, weights=weights))


def _read_files(folder: Path, sets: Mapping[str, SetFiles]) -> list[Pairs]:
    found = []
    for name, files in sets.items():
        pairs = read_pairs(folder / files.judged, name)
        parts = [read_pairs(folder / file) for file in files.fitted_too]
        others = [sentence for p in parts for sentence in (*p.first, *p.second)]
        subtasks = pairs.subtasks if files.in_subtasks else [""] * len(pairs.gold)
        found.append(replace(pairs, subtasks=subtasks, others=others))
    return found


def _table(path: Path) -> list[dict[str, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a set of pairs") from error
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def _rows(sentences: Sequence[str], vectors: Mapping[str, NDArray[np.float32]]) -> Matrix:
    return np.stack([vectors[sentence] for sentence in sentences])
