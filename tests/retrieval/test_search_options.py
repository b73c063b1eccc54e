"""A new option of a search is declared once, and offered by every interface."""

from __future__ import annotations

from typing import get_type_hints

from slimdex.retrieval.remote_collection import body_of
from slimdex.retrieval.search.options import (
    SearchKeywords,
    SearchOptions,
    options_of,
)
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.server.routes.bodies import SearchBody


def test_a_service_and_its_client_have_each() -> None:
    assert body_of(SearchRequest(texts="a", regex="b"))["regex"] == "b"
    offered = {name for name, each in options_of(SearchOptions).items() if each.http is not None}
    assert offered <= {*SearchBody.model_fields}


def test_keywords_for_type_checkers_are_the_options_of() -> None:
    declared = {name: each.kind for name, each in options_of(SearchOptions).items()}
    by_position = {"limit": int, "where": str | None}
    assert by_position | get_type_hints(SearchKeywords) == declared
    assert [*by_position, *SearchKeywords.__annotations__] == [*declared]
