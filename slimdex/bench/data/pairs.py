"""Pairs of sentences with human scores of similarity, and their correlation with cosines."""

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

PROTOCOLS = ("", " mean", " wmean")
"""Suffixes of columns, for the correlation over all pairs of a set, its mean over subtasks, and its
mean weighted by pairs.

MTEB and Reimers & Gurevych (2019) report the first, the code of Huang et al. (2021) the mean, and
those of Li et al. (2020) and Su et al. (2021) the weighted mean.
"""
SEVEN = {
    "STS-B": ("STSBenchmark-test.tsv", "STSBenchmark-train.tsv", "STSBenchmark-dev.tsv"),
    "SICK-R": ("SICK-R-test.tsv", "SICK-R-train.tsv", "SICK-R-trial.tsv"),
    "STS12": ("STS12.tsv",),
    "STS13": ("STS13.cased.tsv",),
    "STS14": ("STS14.cased.tsv",),
    "STS15": ("STS15.cased.tsv",),
    "STS16": ("STS16.cased.tsv",),
}
"""Sets of the papers -> the judged file, and files that only reducers are fitted on.

Case is kept where possible; STS12 is lower-cased.
"""


@dataclass(frozen=True)
class Pairs:
    """Pairs of sentences with human scores.

    Attributes
    ----------
    first, second : the sentences of each pair.
    gold : (n,) scores, higher for more similar.
    subtasks : (n,) source of each pair, if the file has it.
    others : sentences of the set's other parts, with repetitions.
    """

    name: str
    first: Sequence[str]
    second: Sequence[str]
    gold: NDArray[np.float64]
    subtasks: Sequence[str] = ()
    others: Sequence[str] = ()

    @property
    def sentences(self) -> list[str]:
        """Distinct judged sentences, in the order of the file."""
        return list(dict.fromkeys([*self.first, *self.second]))

    @property
    def protocols(self) -> tuple[str, ...]:
        """Protocols of the set's correlation: over all pairs, and by subtasks if it has any."""
        return PROTOCOLS if len(set(self.subtasks)) > 1 else PROTOCOLS[:1]


def read_pairs(path: Path, name: str = "") -> Pairs:
    """Read a table with tabs and a header: sentence1, sentence2, score or label.

    Raises `InputError` if the file is missing or has other columns.
    """
    rows = _table(path)
    gold = next((c for c in ("score", "label") if rows and c in rows[0]), None)
    if gold is None or not {"sentence1", "sentence2"} <= set(rows[0]):
        raise InputError(f"{path}: expected columns sentence1, sentence2 and score or label")
    try:
        scores = np.array([float(row[gold]) for row in rows])
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: a {gold} that is no number ({error})") from error
    first, second = ([row[side] for row in rows] for side in ("sentence1", "sentence2"))
    subtasks = [row.get("subtask") or "" for row in rows]
    return Pairs(name or path.stem, first, second, scores, subtasks)


def read_seven(folder: Path) -> list[Pairs]:
    """Read the papers' seven sets from a folder of their files."""
    found = []
    for name, (judged, *fitted_too) in SEVEN.items():
        parts = [read_pairs(folder / file) for file in fitted_too]
        others = [sentence for p in parts for sentence in (*p.first, *p.second)]
        pairs = read_pairs(folder / judged, name)
        subtasks = pairs.subtasks if name.startswith("STS1") else ()
        found.append(replace(pairs, subtasks=subtasks, others=others))
    return found


def spearman(pairs: Pairs, vectors: Mapping[str, NDArray[np.float32]]) -> float:
    """Spearman's correlation x 100 of cosines and gold, over all pairs of a set.

    `vectors` maps each sentence to its vector (dim,).
    """
    sides = (np.stack([vectors[text] for text in side]) for side in (pairs.first, pairs.second))
    return correlations(pairs, *sides)[""]


def correlations(pairs: Pairs, first: Matrix, second: Matrix) -> dict[str, float]:
    """Map protocols of a set to Spearman's correlation x 100 of cosines (n,) and gold."""
    cosines = np.vecdot(normalize_rows(first), normalize_rows(second))

    def of(rows: NDArray[np.bool_] | slice) -> float:
        return 100 * float(spearmanr(cosines[rows], pairs.gold[rows]).statistic)

    if len(pairs.protocols) == 1:
        return {"": of(slice(None))}
    subtasks = np.array(pairs.subtasks)
    masks = [subtasks == name for name in dict.fromkeys(pairs.subtasks)]
    found = [of(mask) for mask in masks]
    weighted = np.average(found, weights=[mask.sum() for mask in masks])
    figures = of(slice(None)), float(np.mean(found)), float(weighted)
    return dict(zip(PROTOCOLS, figures, strict=True))


def _table(path: Path) -> list[dict[str, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a set of pairs") from error
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
