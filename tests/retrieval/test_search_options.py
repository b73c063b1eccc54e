"""A new option of a search is declared once, and offered by every interface."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, get_type_hints

import click
import pytest

from slimdex.errors import InputError
from slimdex.retrieval.cli.click_commands import command_of
from slimdex.retrieval.remote_collection import body_of
from slimdex.retrieval.search.options import (
    SearchKeywords,
    SearchOptions,
    option,
    options_of,
    takes_options,
)
from slimdex.retrieval.search.request import SearchRequest
from slimdex.retrieval.server.routes.bodies import SearchBody

HELP = "Only the newest documents, as many as this."
NEWEST: Any = option(None, HELP, least=1, most=99, value="COUNT")


@dataclass(frozen=True, eq=False, kw_only=True)
class NewRequest(SearchRequest):
    """A request with one option more."""

    newest: int | None = NEWEST


@dataclass(frozen=True, eq=False, kw_only=True)
class NewOptions(SearchOptions):
    """Options with the same one, which a command takes."""

    newest: int | None = NEWEST


def test_the_request_checks_it() -> None:
    assert NewRequest(texts="a", newest=5).newest == 5
    assert NewRequest(texts="a").manner != NewRequest(texts="a", newest=5).manner
    for wrong in (0, 100, 1.5, "many"):
        with pytest.raises(InputError, match=rf"^newest={wrong!r}; expected 1 to 99$"):
            NewRequest(texts="a", newest=wrong)  # type: ignore[arg-type]


def test_the_command_line_has_it() -> None:
    given = list[Any]()

    def search(*, options: NewOptions) -> None:
        given.append(options)

    command = command_of(search, "search")
    assert f"--newest COUNT {HELP}" in " ".join(command.get_help(click.Context(command)).split())
    command(["--newest", "7", "--glob", "*.py"], standalone_mode=False)
    assert (given[0].newest, given[0].limit, [*given[0].glob]) == (7, 10, ["*.py"])


def test_a_service_and_its_client_have_it() -> None:
    sent = body_of(NewRequest(texts="a", newest=5, regex="b"))
    assert (sent["newest"], sent["regex"]) == (5, "b")
    offered = {name for name, each in options_of(SearchOptions).items() if each.http is not None}
    assert offered <= {*SearchBody.model_fields}


def test_keywords_in_python_have_it() -> None:
    def search(query: str, limit: int = 10, **options: Any) -> None:
        """Find."""

    parameter = inspect.signature(takes_options(search, NewRequest)).parameters["newest"]
    assert (parameter.default, parameter.annotation) == (None, int | None)
    assert f"newest : {HELP}" in inspect.getdoc(search).splitlines()  # type: ignore[union-attr]


def test_keywords_for_type_checkers_are_the_options_of() -> None:
    declared = {name: each.kind for name, each in options_of(SearchOptions).items()}
    by_position = {"limit": int, "where": str | None}
    assert by_position | get_type_hints(SearchKeywords) == declared
    assert [*by_position, *SearchKeywords.__annotations__] == [*declared]
