"""Requests: invalid values, and which requests are joined."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InputError
from slimdex.retrieval.search.request import SearchRequest, join_requests

TWO = np.eye(2, 48, dtype=np.float32)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "neither texts nor vectors; expected one of them"),
        ({"texts": 5}, r"queries 5; expected texts or vectors \(q, dim\)"),
        ({"texts": ["a", None]}, r"query None; expected texts or vectors \(q, dim\)"),
        ({"texts": ["a"], "vectors": TWO}, "1 texts of 2 queries; expected one of each"),
        ({"texts": "a", "limit": 2.5}, "limit=2.5; expected 1 or more"),
        ({"texts": "a", "candidates": -1}, r"candidates=-1; expected 0 \(rank by codes alone\)"),
        ({"texts": "a", "group_by": "line"}, "group_by='line'; expected document or passage"),
        ({"texts": "a", "hybrid": 1.5}, "hybrid=1.5; expected off, auto, rrf, or a weight"),
        ({"vectors": TWO, "hybrid": "rrf"}, "hybrid='rrf' with vectors; expected texts"),
        ({"texts": "a", "min_score": float("nan")}, "min_score=nan; expected a cosine, -1 to 1"),
        ({"texts": "a", "rerank_depth": 0}, "rerank_depth=0; expected 1 or more"),
        ({"texts": "a", "min_score": "high"}, "min_score='high'; expected a cosine, -1 to 1"),
        ({"texts": "a", "where": {"year": 1}}, r"where=\{'year': 1\}; expected a condition"),
        ({"texts": "a", "rerank": 5}, "rerank=5; expected a CrossEncoder or its name"),
        ({"vectors": TWO, "rerank": object()}, "rerank with vectors; expected texts"),
    ],
)
def test_a_wrong_value_is_refused_with_what_was_expected(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        SearchRequest(**given)


def test_queries_are_named_by_their_texts_or_numbers() -> None:
    request = SearchRequest(texts="a cat")
    assert (request.texts, request.names, len(request)) == (["a cat"], ["a cat"], 1)
    assert SearchRequest(vectors=TWO).names == ["vector 1", "vector 2"]


def test_requests_that_differ_only_in_queries_are_joined() -> None:
    first, second = (
        SearchRequest(texts="a", vectors=TWO[:1], where="n > 1"),
        SearchRequest(texts="b", vectors=TWO[1:]),
    )
    assert first.manner != second.manner
    assert first.manner == replace(second, where="n > 1").manner
    assert first.manner != SearchRequest(vectors=TWO, where="n > 1").manner
    both = join_requests([first, second])
    assert (both.texts, both.where, both.query_vectors.tolist()) == (
        ["a", "b"],
        "n > 1",
        TWO.tolist(),
    )


def test_scores_of_codes_alone_have_no_chance_score() -> None:
    assert SearchRequest(texts="a").has_chance_score
    assert not SearchRequest(texts="a", candidates=0).has_chance_score
