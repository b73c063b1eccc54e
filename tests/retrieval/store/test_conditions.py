"""Conditions hold for the same documents as a tree and in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from uuid import UUID

import duckdb
import pytest
from hypothesis import example, given, settings

from slimdex.errors import InputError
from slimdex.retrieval.store.where.conditions import (
    ALWAYS,
    NEVER,
    Compare,
    Condition,
    Not,
    as_sql,
)
from slimdex.retrieval.store.where.validation import check
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
    assert expected(table, check(as_sql(condition, COLUMNS), [*COLUMNS])) == held(condition)


def test_values_that_are_no_constants_are_refused() -> None:
    with pytest.raises(InputError, match=r"value 1990; expected a list of values"):
        as_sql(Compare("n", "IN", 1990), COLUMNS)
    for operator, value in product(["=", "HAS"], [float("nan"), float("inf"), object(), b"x"]):
        with pytest.raises(InputError, match="expected a text, a number or a truth"):
            as_sql(Compare("n", operator, value), COLUMNS)


@pytest.mark.parametrize(
    ("column", "value", "written"),
    [
        ("x", Decimal("0.1"), "x = 0.1"),
        ("x", "0.1", "false"),
        ("day", "2024-02-29", "day = DATE '2024-02-29'"),
        ("day", "soon", "false"),
        ("moment", "2024-02-29T01:00:00+01:00", "moment = TIMESTAMP '2024-02-29 00:00:00'"),
        ("n", 2**53 + 1, "n = 9007199254740993"),
        ("n", 2**53, "false"),
        ("name", UUID(int=7), "false"),
        ("n", "1", "false"),
        ("flag", "true", "false"),
        ("flag", 1, "flag"),
        ("name", 1, "false"),
        ("tags", ["a"], "tags = ['a']"),
        ("tags", [], "tags = []"),
        ("n", None, "n IS NULL"),
        ("unknown", 1, "false"),
        ("unknown", None, "true"),
    ],
)
def test_constants_of_another_kind(
    table: duckdb.DuckDBPyConnection, column: str, value: object, written: str
) -> None:
    found = expected(table, check(as_sql(Compare(column, "=", value), COLUMNS), [*COLUMNS]))
    assert found == expected(table, written)
