"""Pairs of sentences with people's scores of their likeness, and how cosines rank them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from slimdex.indexes.arrays import normalize_rows
from slimdex.indexes.errors import InputError

SEVEN = {
    "STS-B": "STSBenchmark-test.tsv",
    "SICK-R": "SICK-R-test.tsv",
    "STS12": "STS12.tsv",
    "STS13": "STS13.cased.tsv",
    "STS14": "STS14.cased.tsv",
    "STS15": "STS15.cased.tsv",
    "STS16": "STS16.cased.tsv",
}
"""The seven sets of the papers -> files, in their own case where there is one: STS12 has none."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of sentences with people's scores.

    Attributes
    ----------
    first, second : the sentences of each pair.
    gold : (n,) scores, higher for nearer in meaning.
    """

    name: str
    first: Sequence[str]
    second: Sequence[str]
    gold: NDArray[np.float64]

    @property
    def sentences(self) -> list[str]:
        """Each sentence once, in the order in which they come first."""
        return list(dict.fromkeys([*self.first, *self.second]))


def read_pairs(path: Path, name: str = "") -> Pairs:
    """Read a table with a header and tabs: sentence1, sentence2, score or label.

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
    sides = ([row[side] for row in rows] for side in ("sentence1", "sentence2"))
    return Pairs(name or path.stem, *sides, scores)


def read_seven(folder: Path) -> list[Pairs]:
    """Read the papers' seven sets from a folder that has their files."""
    return [read_pairs(folder / file, name) for name, file in SEVEN.items()]


def spearman(pairs: Pairs, vectors: Mapping[str, NDArray[np.float32]]) -> float:
    """Spearman's correlation x 100 of cosines and gold, over all pairs of a set.

    Parameters
    ----------
    vectors : sentence -> vector (dim,).
    """
    first, second = (
        normalize_rows(np.stack([vectors[sentence] for sentence in side]))
        for side in (pairs.first, pairs.second)
    )
    return 100 * float(spearmanr(np.vecdot(first, second), pairs.gold).statistic)


def _table(path: Path) -> list[dict[str, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a set of pairs") from error
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
