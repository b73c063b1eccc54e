"""Bonuses of words against the formula in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slimdex.retrieval.lexical.fusion import word_bonuses
from slimdex.retrieval.lexical.word_index import ScoredRows

NEAR = st.lists(st.floats(-1, 1, width=16), max_size=20)
WORDS = st.lists(st.floats(0.125, 8, width=16), max_size=150)
MEANS = st.floats(-0.5, 0.9375, width=16)


def array(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def ranked(*scores: float, first: int = 0, ideal: float = 0.0) -> ScoredRows:
    """Rows numbered from `first`, in the order of their scores."""
    rows = np.arange(first, first + len(scores))
    return ScoredRows(np.sort(array(*scores))[::-1], rows, ideal=ideal)


@given(
    near=NEAR,
    words=WORDS,
    total=st.integers(0, 400),
    ideal=st.floats(0.125, 40, width=16),
    mean=MEANS,
    first=st.integers(0, 160),
)
def test_formula(
    near: list[float],
    words: list[float],
    total: int,
    ideal: float,
    mean: float,
    first: int,
) -> None:
    nearest, worded = ranked(*near, first=first), ranked(*words, ideal=ideal)
    cosines = np.linspace(-0.5, 1, len(words)).astype(np.float32)
    actual = word_bonuses(array(*words), cosines, nearest, worded, mean, total)
    best = sorted(words, reverse=True)
    floor_rank = min(100, max(2, total // 2))
    floor = best[floor_rank - 1] if len(best) >= floor_rank else 0
    second, first_cosine = sorted([*near, mean, mean])[-2:]
    top = max(first_cosine - mean, 1e-9)
    expected = [
        max(min(0.5 * (1 - mean), 1 - (first_cosine + second) / 2), 1e-9)
        * (max(score - floor, 0) / best[0])
        * min(score / ideal + max(float(cosine) - mean, 0) / top, 1)
        for score, cosine in zip(words, cosines, strict=True)
    ]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)


@given(words=WORDS, cosines=st.lists(st.floats(-1, 1, width=16), min_size=9, max_size=9))
def test_the_level_of_the_cosines_does_not_matter(words: list[float], cosines: list[float]) -> None:
    """A constant coordinate maps each cosine c to 0.9 + 0.1 c, and each bonus to a tenth."""

    def bonuses(start: float, scale: float) -> NDArray[np.float64]:
        some, bm25 = start + scale * array(*cosines), array(*words, *[0] * 9)[:9]
        mean = start + scale * 0.25
        return word_bonuses(bm25, some, ranked(*some), ranked(*words, ideal=9), mean, 400)

    assume(max(cosines) > 0.3)
    np.testing.assert_allclose(bonuses(0.9, 0.1), bonuses(0.0, 1.0) / 10, rtol=1e-3, atol=1e-5)
