"""Smooth inverse frequency (SIF): word weights, and removal of the common component.

Arora, Liang and Ma 2017, "A simple but tough-to-beat baseline for sentence embeddings",
https://openreview.net/forum?id=SyK00v5xx.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError, shortened
from slimdex.indexes.execution.threads import eigh, product

SIF_A = 1e-3
"""The paper's parameter a, the same for all its data."""
LONGEST_LINE = 1 << 16
"""Bytes of a line in a file of frequencies."""


def zipf(count: int) -> NDArray[np.float64]:
    """Probabilities (count,) of words sorted by frequency, by Zipf's law.

    Ranks start at 2, as in model2vec, so that the first word does not outweigh all others.

    >>> zipf(2).round(3).tolist()
    [0.6, 0.4]
    """
    inverse = 1.0 / np.arange(2, count + 2)
    found: NDArray[np.float64] = inverse / inverse.sum()
    return found


def sif_weights(p: NDArray[np.float64], a: float = SIF_A) -> NDArray[np.float32]:
    """Compute ``a / (a + p(w))``: 1 for a word that never occurs, little for "the".

    >>> sif_weights(np.array([0.0, 0.001, 0.009])).round(3).tolist()
    [1.0, 0.5, 0.10000000149011612]
    """
    return (a / (a + p)).astype(np.float32)


def first_component(moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """First singular vector (d,) of uncentred vectors X (n, d), given ``X^T X``.

    The sign has no effect on ``u u^T``; the largest entry is made positive.
    """
    _, vectors = eigh(moment)
    first: NDArray[np.float64] = vectors[:, -1]
    return -first if first[np.argmax(np.abs(first))] < 0 else first


def without_component(X: Matrix, u: NDArray[np.float64]) -> Matrix:
    """Remove the component along the unit vector u (d,) from rows of X (n, d): ``x - u u^T x``.

    A text vector is a weighted mean of word vectors, so this removes it from texts, too.

    >>> without_component(np.array([[3, 4]], dtype=np.float32), np.array([1.0, 0.0])).tolist()
    [[0.0, 4.0]]
    """
    direction = u.astype(np.float32)
    out: Matrix = X - np.outer(product(X, direction), direction)
    return out


def read_frequencies(path: Path) -> dict[str, float]:
    """Read lines of a word and its count, separated by a space or tab.

    Raises `InputError` if a line has another form, a count is not a non-negative number, or all
    counts are 0.
    """
    counts: dict[str, float] = {}
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE):
            number += 1
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise InputError(f"{path}: line {number}: not UTF-8; expected UTF-8") from error
            if not text.strip():
                continue
            word, _, count = text.strip("\r\n ").replace("\t", " ").rpartition(" ")
            if not word.strip() or not re.fullmatch(r"\d{1,18}(\.\d{1,18})?", count):
                shown = shortened(text.strip(), 60)
                raise InputError(f"{path}: line {number}: {shown}; expected a word and its count")
            counts[word.strip()] = counts.get(word.strip(), 0.0) + float(count)
    if not sum(counts.values()):
        raise InputError(f"{path}: no counts; expected lines of a word and its count")
    return counts
