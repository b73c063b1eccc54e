"""Bonuses of words against cases worked by hand and the formula in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slimdex.retrieval.lexical.weighting import word_bonuses

PAIRS = st.lists(
    st.tuples(st.floats(-1, 1, width=16), st.floats(0, 8, width=16)), min_size=1, max_size=150
)


def array(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def test_the_second_best_cosine_and_the_best_score_are_units() -> None:
    bonuses = word_bonuses(array(0.5, 0.75, 1.0, 0.0), array(0, 4, 0, 16))
    assert bonuses.tolist() == [0, 0, 0, 0.25 * 0.75**2]  # above the score of the middle row


def test_a_word_of_one_row_counts_and_common_words_do_not_in_a_small_collection() -> None:
    cosines = array(0.5, 0.4, 0.3, 0.2)
    assert word_bonuses(cosines, array(0, 0, 0, 3)).tolist() == pytest.approx([0, 0, 0, 0.6])
    assert word_bonuses(cosines, array(1, 0, 3, 3)).max() == 0


def test_scores_count_above_the_hundredth() -> None:
    """99 rows above it: of the best score 10 only 2 count, so 0.2 of it, twice."""
    bm25 = array(10, *[9.0] * 98, 8, 8, 7, *[0] * 98)
    bonuses = word_bonuses(array(*[0.5] * 200), bm25)
    np.testing.assert_allclose(bonuses[[0, 1]], [0.5 * 0.2 * 0.2, 0.5 * 0.2 * 0.1])
    assert not bonuses[99:].any()


@pytest.mark.parametrize("count", [1, 5, 100, 250])
def test_words_that_tell_nothing_apart_change_nothing(count: int) -> None:
    cosines = np.linspace(0.9, 0.1, 250, dtype=np.float32)
    same = word_bonuses(cosines, np.full(250, 3, np.float32))
    assert not same.any()
    sure = np.append(np.ones(2, np.float32), cosines)
    bm25 = np.zeros(252, np.float32)
    bm25[-count:] = np.arange(1, count + 1)
    assert not word_bonuses(sure, bm25).any()


def test_nothing_found_and_a_single_row() -> None:
    assert word_bonuses(array(), array()).tolist() == []
    assert word_bonuses(array(0.3, 0.2), array(0, 0)).tolist() == [0, 0]
    assert word_bonuses(array(0.75), array(5)).tolist() == [0.25]


@given(pairs=PAIRS)
def test_formula(pairs: list[tuple[float, float]]) -> None:
    cosines, bm25 = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = word_bonuses(array(*cosines), array(*bm25))
    best, ranked = max(bm25), sorted(bm25, reverse=True)
    floor = ranked[min(100, max(2, len(ranked) // 2)) - 1] if len(ranked) > 1 else 0
    matches = [max(score - floor, 0) / (best or 1) for score in bm25]
    sure = sorted(cosines, reverse=True)[:2][-1]
    expected = [(1 - sure) * max(matches) * match for match in matches]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)
    assert (found >= 0).all()
    assert (found <= 2).all()
