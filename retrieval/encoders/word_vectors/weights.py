"""Weights of words, and the direction that sentences share: smooth inverse frequency (SIF).

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

SIF_A = 1e-3
"""The paper's a, which it keeps the same for all its data."""
LONGEST_LINE = 1 << 16
"""Bytes of a line of a list of frequencies."""


def zipf(count: int) -> NDArray[np.float64]:
    """Probabilities (count,) of words that stand in the order of their frequency, by Zipf's law.

    The first has the rank 2, as in model2vec, so that it does not outweigh all others.

    >>> zipf(2).round(3).tolist()
    [0.6, 0.4]
    """
    inverse = 1.0 / np.arange(2, count + 2)
    found: NDArray[np.float64] = inverse / inverse.sum()
    return found


def sif_weights(p: NDArray[np.float64], a: float = SIF_A) -> NDArray[np.float32]:
    """``a / (a + p(w))``: 1 for a word that never stands in a text, little for "the".

    >>> sif_weights(np.array([0.0, 0.001, 0.009])).round(3).tolist()
    [1.0, 0.5, 0.10000000149011612]
    """
    return (a / (a + p)).astype(np.float32)


def first_component(moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first singular vector (d,) of vectors X (n, d), by ``X^T X``; X is not centred.

    Its largest number is positive, which decides nothing: it is used as ``u u^T``.
    """
    _, vectors = np.linalg.eigh(moment)
    first: NDArray[np.float64] = vectors[:, -1]
    return -first if first[np.argmax(np.abs(first))] < 0 else first


def without_component(X: Matrix, u: NDArray[np.float64]) -> Matrix:
    """Rows of X (n, d) less their part along u (d,), of unit length: ``x - u u^T x``.

    A sentence is a weighted mean of its words: what is taken from these is taken from it.

    >>> without_component(np.array([[3, 4]], dtype=np.float32), np.array([1.0, 0.0])).tolist()
    [[0.0, 4.0]]
    """
    direction = u.astype(np.float32)
    out: Matrix = X - np.outer(X @ direction, direction)
    return out


def read_frequencies(path: Path) -> dict[str, float]:
    """Lines of ``word count``, or with a tab between; how often each word stands in some texts.

    Raises
    ------
    InputError
        If a line is none, a count is no number from 0 on, or there are no lines.
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
                said = shortened(text.strip(), 60)
                raise InputError(f"{path}: line {number}: {said}; expected a word and its count")
            counts[word.strip()] = counts.get(word.strip(), 0.0) + float(count)
    if not sum(counts.values()):
        raise InputError(f"{path}: no counts; expected lines of a word and its count")
    return counts
