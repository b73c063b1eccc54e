"""Fusion against the formulas in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.indexes.errors import InputError
from slimdex.retrieval.lexical.fusion import FOUND_BY, Candidates, Fusion, fusion_of
from slimdex.retrieval.lexical.word_index import Found

SCORES = st.dictionaries(st.integers(0, 30), st.floats(0.125, 8, width=16), max_size=12)
COSINES = st.dictionaries(st.integers(0, 30), st.floats(-0.875, 1, width=16), max_size=12)


def found(scores: dict[int, float]) -> Found:
    order = sorted(scores, key=lambda row: (-scores[row], row))
    return Found(np.array([scores[r] for r in order], np.float32), np.array(order, np.int64))


def joined(near: dict[int, float], others: dict[int, float], words: dict[int, float]) -> Candidates:
    candidates = Candidates.joined(found(near), found(others), found(words))
    every = near | others
    assert candidates.rows.tolist() == sorted(every)
    assert candidates.cosines.tolist() == [every[row] for row in sorted(every)]
    return candidates


@given(near=COSINES, words=SCORES, weight=st.sampled_from([0.1, 0.5, 1.0]))
def test_weighted(near: dict[int, float], words: dict[int, float], weight: float) -> None:
    others = dict.fromkeys(words.keys() - near.keys(), -0.5)
    candidates, every = joined(near, others, words), near | others
    scores = Fusion(weight).scores(candidates)
    best_near, best_words = max(every.values(), default=0), max(words.values(), default=1)
    expected = {
        row: (1 - weight) * (every[row] + 1) / (best_near + 1)
        + weight * words.get(row, 0) / best_words
        for row in every
    }
    np.testing.assert_allclose(scores, [expected[row] for row in candidates.rows], rtol=1e-5)
    assert (np.diff(scores[candidates.order(scores)]) <= 0).all()


@given(near=COSINES, words=SCORES)
def test_reciprocal_ranks(near: dict[int, float], words: dict[int, float]) -> None:
    candidates = joined(near, dict.fromkeys(words.keys() - near.keys(), 0.75), words)
    scores = Fusion(None).scores(candidates)
    ranked = [found(each).rows.tolist() for each in (near, words)]
    ranks = [{row: i + 1 for i, row in enumerate(each)} for each in ranked]
    expected = [sum(1 / (60 + own[r]) for own in ranks if r in own) for r in candidates.rows]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_how_rows_are_found() -> None:
    words = Found(np.array([2, 1, 1], np.float32), np.array([4, 7, 9]), np.array([9]))
    candidates = Candidates.joined(found({4: 0.5, 2: 0.5}), found({7: 0.1, 9: 0.1}), words)
    ways = {
        first: [FOUND_BY[way] for way in candidates.found_by(np.array(first))]
        for first in ((9, 7), (4, 2), (9, 7, 4), (2, -1))
    }
    assert ways == {
        (9, 7): ["name", "words"],  # the two nearest are 2 and 4
        (4, 2): ["both", "meaning"],
        (9, 7, 4): ["name", "both", "both"],
        (2, -1): ["meaning", "meaning"],
    }
    assert candidates.order(Fusion(0.1).scores(candidates))[0] == 3  # the name
    equal = candidates.order(np.zeros(4))
    assert candidates.rows[equal].tolist() == [2, 4, 7, 9]  # by cosine, then by row


@given(near=COSINES, words=SCORES)
def test_rule(near: dict[int, float], words: dict[int, float]) -> None:
    """Up to 31 rows, so that the floor is the score of the middle one."""
    others = dict.fromkeys(words.keys() - near.keys(), -0.5)
    candidates, every = joined(near, others, words), near | others
    second, best = sorted(every.values())[-2:][:1], max(words.values(), default=1)
    ranked = sorted((words.get(row, 0) for row in every), reverse=True)
    floor = ranked[max(2, len(ranked) // 2) - 1] if len(ranked) > 1 else 0
    matches = {row: max(words.get(row, 0) - floor, 0) / best for row in every}
    expected = [
        every[row] + (1 - second[0]) * max(matches.values()) * matches[row] for row in sorted(every)
    ]
    np.testing.assert_allclose(Fusion("auto").scores(candidates), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fusion", [Fusion(0.1), Fusion("auto")])
def test_the_farthest_row_with_the_name_is_first(fusion: Fusion) -> None:
    near = Found(np.array([0.9, 0.1, -1], np.float32), np.array([4, 2, 7]))
    words = Found(np.array([8, 7], np.float32), np.array([7, 4]), np.array([7]))
    candidates = Candidates.joined(near, found({}), words)
    assert candidates.rows[candidates.order(fusion.scores(candidates))].tolist() == [7, 4, 2]


@pytest.mark.parametrize("asked", ["on", "1.5", -0.1, float("nan"), True, ""])
def test_what_is_no_fusion_is_refused(asked: str | float) -> None:
    with pytest.raises(InputError, match=r"hybrid=.*; expected off, auto, rrf, or a weight"):
        fusion_of(asked)


def test_no_weight_is_no_fusion() -> None:
    assert fusion_of(0) is fusion_of("0.0") is fusion_of("off") is None
    assert str(fusion_of(0.3)) == "0.3"
    assert str(fusion_of("rrf")) == "rrf"
    assert str(fusion_of("auto")) == "auto"
