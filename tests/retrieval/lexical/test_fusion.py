"""Fusion against the formulas in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.errors import InputError
from slimdex.retrieval.lexical.fusion import (
    Candidates,
    Fusion,
    FusionScales,
    fusion_of,
    word_bonuses,
)
from slimdex.retrieval.lexical.word_index import ScoredRows

SCORES = st.dictionaries(st.integers(0, 30), st.floats(0.125, 8, width=16), max_size=12)
COSINES = st.dictionaries(st.integers(0, 30), st.floats(-0.875, 1, width=16), max_size=12)
ALLOWED = st.sets(st.integers(0, 30))
IDEAL = 12.0
"""BM25 of a row with every word of the query."""
MEAN = -0.9375
"""Mean cosine of the query with all rows."""


def found(scores: dict[int, float]) -> ScoredRows:
    order = sorted(scores, key=lambda row: (-scores[row], row))
    return ScoredRows(np.array([scores[r] for r in order], np.float32), np.array(order, np.int64))


def joined(
    near: dict[int, float], words: dict[int, float], allowed: set[int] | None = None
) -> Candidates:
    """Rows that a filter allows; those found by words alone have a cosine of -0.5."""
    scales = FusionScales(found(near), found(words)._replace(ideal=IDEAL), MEAN, 31)
    if allowed is not None:
        near, words = ({r: s for r, s in own.items() if r in allowed} for own in (near, words))
    others = dict.fromkeys(words.keys() - near.keys(), -0.5)
    candidates = Candidates.join(found(near), found(others), scales)
    every = near | others
    assert candidates.rows.tolist() == sorted(every)
    assert candidates.cosines.tolist() == [every[row] for row in sorted(every)]
    return candidates


@given(near=COSINES, words=SCORES, allowed=ALLOWED, weight=st.sampled_from([0.1, 0.5, 1.0]))
def test_weighted(
    near: dict[int, float], words: dict[int, float], allowed: set[int], weight: float
) -> None:
    candidates = joined(near, words, allowed)
    scores = Fusion(weight).scores(candidates)
    best_near, best_words = max(near.values(), default=MEAN), max(words.values(), default=1)
    expected = [
        (1 - weight) * (near.get(row, -0.5) - MEAN) / (best_near - MEAN or 1)
        + weight * words.get(row, 0) / best_words
        for row in candidates.rows.tolist()
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    assert (np.diff(scores[candidates.order(scores)]) <= 0).all()


@given(near=COSINES, words=SCORES, allowed=ALLOWED)
def test_reciprocal_ranks(
    near: dict[int, float], words: dict[int, float], allowed: set[int]
) -> None:
    """Ranks are those of the whole collection."""
    candidates = joined(near, words, allowed)
    scores = Fusion(None).scores(candidates)
    ranked = [found(each).rows.tolist() for each in (near, words)]
    ranks = [{row: i + 1 for i, row in enumerate(each)} for each in ranked]
    expected = [sum(1 / (60 + own[r]) for own in ranks if r in own) for r in candidates.rows]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


@given(near=COSINES, words=SCORES, k=st.integers(1, 9))
def test_the_first_of_an_order(near: dict[int, float], words: dict[int, float], k: int) -> None:
    """Equal scores, which many rows without words have, are in the order of cosines and rows."""
    candidates = joined(near, words)
    fused = candidates.bm25.round().astype(np.float64)
    keys = zip(-fused, -candidates.cosines, candidates.rows, strict=True)
    expected = [row for _, _, row in sorted(keys)]
    assert candidates.rows[candidates.order(fused)].tolist() == expected
    assert candidates.rows[candidates.order(fused, k)].tolist() == expected[:k]


@given(near=COSINES, words=SCORES, allowed=ALLOWED)
def test_scores_do_not_depend_on_the_filter(
    near: dict[int, float], words: dict[int, float], allowed: set[int]
) -> None:
    every, some = joined(near, words), joined(near, words, allowed)
    scores = dict(zip(every.rows.tolist(), Fusion("auto").scores(every).tolist(), strict=True))
    assert Fusion("auto").scores(some).tolist() == [scores[row] for row in some.rows.tolist()]
    bonuses = word_bonuses(every.bm25, every.cosines, *every.scales)
    np.testing.assert_allclose(list(scores.values()), every.cosines + bonuses)


@pytest.mark.parametrize(
    "fusion", [Fusion(0.1), Fusion(0.9), Fusion("auto"), Fusion(None)], ids=str
)
def test_a_row_with_the_name_is_first_even_if_farthest(fusion: Fusion) -> None:
    near = ScoredRows(np.array([0.9, 0.1, -1], np.float32), np.array([4, 2, 7]))
    words = ScoredRows(np.array([8, 7], np.float32), np.array([7, 4]), np.array([7]))
    candidates = Candidates.join(near, found({}), FusionScales(near, words, 0.0, 9))
    assert candidates.rows[candidates.order(fusion.scores(candidates))].tolist() == [7, 4, 2]


def test_rare_words_count_by_what_the_nearest_row_does_not_mean() -> None:
    """A bonus of 4 puts the farther row first, unless the nearest one's cosine is 0.96."""
    words = ScoredRows(np.array([8], np.float32), np.array([7]), rare=np.array([4.0]), ideal=8)
    for nearest, mean, first in ((0.9, 0.0, 7), (0.9, 0.5, 7), (0.96, 0.9, 4)):
        near = ScoredRows(np.array([nearest, 0.6], np.float32), np.array([4, 7]))
        scales = FusionScales(near, words, mean, 9)
        candidates = Candidates.join(near, found({}), scales)
        scores = Fusion("auto").scores(candidates)
        without = Fusion("auto").scores(candidates._replace(rare=np.zeros(2)))
        np.testing.assert_allclose(scores - without, [0, 4 * (1 - nearest)], rtol=1e-6)
        assert candidates.rows[candidates.order(scores)][0] == first


@pytest.mark.parametrize("asked", ["on", "1.5", -0.1, float("nan"), True, ""])
def test_invalid_fusions_are_refused(asked: str | float) -> None:
    with pytest.raises(InputError, match=r"hybrid=.*; expected off, auto, rrf, or a weight"):
        fusion_of(asked)


def test_a_weight_of_zero_is_no_fusion() -> None:
    assert fusion_of(0) is fusion_of("0.0") is fusion_of("off") is None
    assert str(fusion_of(0.3)) == "0.3"
    assert str(fusion_of("rrf")) == "rrf"
    assert str(fusion_of("auto")) == "auto"
