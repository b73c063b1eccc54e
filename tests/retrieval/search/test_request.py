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
    ("given", "name"),
    [
        ({}, "texts"),
        *(({"texts": 5}, "queries 5"), ({"texts": ["a", None]}, "query None")),
        ({"texts": ["a"], "vectors": TWO}, "1 texts of 2 queries"),
        ({"vectors": TWO, "hybrid": "rrf"}, "hybrid"),
        ({"vectors": TWO, "rerank": object()}, "rerank"),
        *(
            ({"texts": "a", "glob": ["*.md", glob]}, "glob")
            for glob in ("", "./", "!*.md", "/a/*", "C:/a", "a\\*", "../a", "{a,{b,c}}", "," * 1000)
        ),
        *(
            ({"texts": "a", name: value}, f"{name}=")
            for name, value in (
                *(("limit", 2.5), ("candidates", -1), ("group_by", "line"), ("hybrid", 1.5)),
                *(("min_score", float("nan")), ("min_score", "high"), ("rerank_depth", 0)),
                *(("where", {"year": 1}), ("rerank", 5)),
            )
        ),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(given: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=name):
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
