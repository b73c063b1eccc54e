"""Conditions hold for the same documents as a tree and in SQL."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import example, given, settings

from slimdex.indexes.errors import InputError
from slimdex.retrieval.store.where.checks import checked
from slimdex.retrieval.store.where.conditions import (
    ALWAYS,
    NEVER,
    Compare,
    Condition,
    Not,
    as_sql,
)
from tests.chance import CHANCE
from tests.retrieval.store.condition_cases import (
    COLUMNS,
    TEXT_OPERATORS,
    expected,
    held,
    made_table,
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
    assert expected(table, checked(as_sql(condition, COLUMNS), [*COLUMNS])) == held(condition)


def test_values_that_are_no_constants_are_refused() -> None:
    with pytest.raises(InputError, match=r"value 1990; expected a list of values"):
        as_sql(Compare("n", "IN", 1990), COLUMNS)
    for value in (float("nan"), float("inf"), object(), b"x"):
        with pytest.raises(InputError, match="expected a text, a number or a truth"):
            as_sql(Compare("n", "=", value), COLUMNS)
