"""Bonuses of words against cases worked by hand and the formula in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slimdex.retrieval.lexical.weighting import word_bonuses

NEAR = st.lists(st.floats(-1, 1, width=16), max_size=20)
WORDS = st.lists(st.floats(0.125, 8, width=16), max_size=150)


def array(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def bonuses_of(
    bm25: NDArray[np.float32], near: NDArray[np.float32], words: NDArray[np.float32], total: int
) -> NDArray[np.float64]:
    """Bonuses of rows whose words are not known to match by chance."""
    return word_bonuses(bm25, np.zeros(len(bm25), np.float32), near, words, 0.0, total)


def test_only_rare_words_count_in_a_small_collection() -> None:
    near = array(0.5, 0.4, 0.3, 0.2)
    one = bonuses_of(array(0, 0, 0, 3), near, array(3), 4)
    assert one.tolist() == pytest.approx([0, 0, 0, 0.6])
    assert bonuses_of(array(1, 0, 3, 3), near, array(3, 3, 1), 4).max() == 0


@pytest.mark.parametrize("count", [1, 5, 100, 200])
def test_words_of_all_rows_have_no_weight(count: int) -> None:
    same, near = np.full(200, 3, np.float32), np.linspace(0.9, 0.1, 250, dtype=np.float32)
    assert not bonuses_of(same, near, same, 250).any()
    words = np.arange(count, 0, -1).astype(np.float32)
    assert not bonuses_of(words, array(1, 1), words, 250).any()


def test_words_count_by_the_share_of_the_query_that_they_cover() -> None:
    """Of an ideal of 16, rows have 8, 4, 4 and 12; the best cosine is 0.5."""
    near, words = array(0.5, 0.4, 0.2, 0.0), array(12, 8, 4, 4)
    bm25, cosines = array(8, 4, 4, 12), array(0.5, 0.25, 0.0, -0.5)
    whole = word_bonuses(bm25, cosines, near, words, 0.0, 400)
    parts = word_bonuses(bm25, cosines, near, words, 16.0, 400)
    np.testing.assert_allclose(parts / whole, [1, 0.75**3, 0.25**3, 0.75**3], rtol=1e-6)


@given(near=NEAR, words=WORDS, total=st.integers(0, 400), ideal=st.floats(0.125, 40, width=16))
def test_formula(near: list[float], words: list[float], total: int, ideal: float) -> None:
    near, ranked = sorted(near, reverse=True), sorted(words, reverse=True)
    cosines = np.linspace(-0.5, 1, len(words)).astype(np.float32)
    actual = word_bonuses(array(*words), cosines, array(*near), array(*ranked), ideal, total)
    rank = min(100, max(2, total // 2))
    floor = ranked[rank - 1] if len(ranked) >= rank else 0
    matches = [max(score - floor, 0) / ranked[0] for score in words]
    sure = min(near[:2], default=1.0)
    nearest = max(near[0] if near else 0, 1e-9)
    shares = [
        min(score / ideal + max(float(cosine), 0) / nearest, 1) ** 3
        for score, cosine in zip(words, cosines, strict=True)
    ]
    expected = [
        (1 - sure) * max(matches) * match * share
        for match, share in zip(matches, shares, strict=True)
    ]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    assert (actual >= 0).all()
    assert (actual <= 2).all()
