"""Fusion against the formulas in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.indexes.errors import InputError
from slimdex.retrieval.lexical.fusion import Fusion, fusion_of
from slimdex.retrieval.lexical.word_index import Found

SCORES = st.dictionaries(st.integers(0, 30), st.floats(0.125, 8, width=16), max_size=12)
COSINES = st.dictionaries(st.integers(0, 30), st.floats(-0.875, 1, width=16), max_size=12)


def found(scores: dict[int, float]) -> Found:
    order = sorted(scores, key=lambda row: (-scores[row], row))
    return Found(np.array([scores[r] for r in order], np.float32), np.array(order, np.int64))


@given(near=COSINES, words=SCORES, weight=st.sampled_from([0.1, 0.5, 1.0]))
def test_weighted(near: dict[int, float], words: dict[int, float], weight: float) -> None:
    near = {row: near.get(row, -0.5) for row in near.keys() | words.keys()}
    fused = Fusion(weight).fused(found(near), found(words))
    best_near, best_words = max(near.values(), default=0), max(words.values(), default=1)
    expected = {
        row: (1 - weight) * (near[row] + 1) / (best_near + 1)
        + weight * words.get(row, 0) / best_words
        for row in near
    }
    assert set(fused.rows.tolist()) == expected.keys()
    np.testing.assert_allclose(fused.scores, [expected[row] for row in fused.rows], rtol=1e-5)
    assert (np.diff(fused.scores) <= 0).all()


@given(near=COSINES, words=SCORES)
def test_reciprocal_ranks(near: dict[int, float], words: dict[int, float]) -> None:
    one, other = found(near), found(words)
    fused = Fusion(None).fused(one, other)
    ranks = [{row: i + 1 for i, row in enumerate(each.rows.tolist())} for each in (one, other)]
    expected = {
        row: sum(1 / (60 + own[row]) for own in ranks if row in own)
        for row in near.keys() | words.keys()
    }
    assert set(fused.rows.tolist()) == expected.keys()
    np.testing.assert_allclose(fused.scores, [expected[row] for row in fused.rows], rtol=1e-6)
    assert (np.diff(fused.scores) <= 0).all()


@given(near=COSINES, words=SCORES)
def test_rule(near: dict[int, float], words: dict[int, float]) -> None:
    """Up to 31 rows, so that no score is below the floor."""
    near = {row: near.get(row, -0.5) for row in near.keys() | words.keys()}
    fused = Fusion("auto").fused(found(near), found(words))
    second, best = sorted(near.values())[-2:][:1], max(words.values(), default=1)
    expected = {row: near[row] + (1 - second[0]) * words.get(row, 0) / best for row in near}
    np.testing.assert_allclose(
        fused.scores, [expected[row] for row in fused.rows], rtol=1e-5, atol=1e-6
    )
    assert (np.diff(fused.scores) <= 0).all()


@pytest.mark.parametrize("fusion", [Fusion(0.1), Fusion("auto")])
def test_the_farthest_row_with_the_name_is_first(fusion: Fusion) -> None:
    near = Found(np.array([0.9, 0.1, -1], np.float32), np.array([4, 2, 7]))
    words = Found(np.array([8, 7], np.float32), np.array([7, 4]), np.array([7]))
    assert fusion.fused(near, words).rows.tolist() == [7, 4, 2]


@pytest.mark.parametrize("asked", ["on", "1.5", -0.1, float("nan"), True, ""])
def test_what_is_no_fusion_is_refused(asked: str | float) -> None:
    with pytest.raises(InputError, match=r"hybrid=.*; expected off, auto, rrf, or a weight"):
        fusion_of(asked)


def test_no_weight_is_no_fusion() -> None:
    assert fusion_of(0) is fusion_of("0.0") is fusion_of("off") is None
    assert str(fusion_of(0.3)) == "0.3"
    assert str(fusion_of("rrf")) == "rrf"
    assert str(fusion_of("auto")) == "auto"
