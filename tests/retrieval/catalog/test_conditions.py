"""Conditions hold for the same documents as a tree, in SQL, and parsed from SQL."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import example, given, settings

from slimdex.indexes.errors import InputError
from slimdex.retrieval.catalog.where.checks import checked
from slimdex.retrieval.catalog.where.conditions import (
    ALWAYS,
    NEVER,
    Compare,
    Condition,
    Not,
    UnsupportedError,
    as_sql,
)
from slimdex.retrieval.catalog.where.parsing import condition_of
from tests.chance import CHANCE
from tests.retrieval.catalog.condition_cases import (
    COLUMNS,
    TEXT_OPERATORS,
    expected,
    held,
    made_table,
    texts,
    trees,
)


@pytest.fixture(scope="module")
def table() -> Iterator[duckdb.DuckDBPyConnection]:
    with made_table() as connection:
        yield connection


@settings(deadline=None, max_examples=CHANCE.count(200, 60))
@given(condition=trees(*TEXT_OPERATORS))
@example(condition=ALWAYS)
@example(condition=Not(NEVER))
def test_rendered_sql_matches_the_same_documents(
    table: duckdb.DuckDBPyConnection, condition: Condition
) -> None:
    assert expected(table, checked(as_sql(condition), [*COLUMNS])) == held(condition)


@settings(deadline=None, max_examples=CHANCE.count(100, 40))
@given(where=texts())
@example(where="n > -9223372036854775808")
@example(where="NOT (n IN (1, NULL))")
@example(where="x > 2.5 AND NOT (f = 0.1)")
@example(where="f BETWEEN 0.1 AND 1e0")
def test_parsed_conditions_match_the_same_documents(
    table: duckdb.DuckDBPyConnection, where: str
) -> None:
    try:
        condition = condition_of(where, COLUMNS)
    except UnsupportedError:
        return
    assert held(condition) == expected(table, where)


def test_values_that_are_no_constants_are_refused() -> None:
    with pytest.raises(InputError, match=r"year: value \[\]; expected a list of values"):
        as_sql(Compare("year", "IN", []))
    for value in (None, float("nan"), {"gt": 1}, [1]):
        with pytest.raises(InputError, match="expected a text, a number or a truth"):
            as_sql(Compare("year", "=", value))


@pytest.mark.parametrize(
    "where",
    [
        *("name = 'A' COLLATE NOCASE", "name = name", "n + 1 = 2", "price = 1e0", "tags = []"),
        *("name LIKE 'a%'", "n IS DISTINCT FROM 1"),
    ],
)
def test_other_expressions_are_unsupported(where: str) -> None:
    with pytest.raises(UnsupportedError):
        condition_of(where, COLUMNS)
