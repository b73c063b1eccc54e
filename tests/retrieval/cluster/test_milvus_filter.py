"""Conditions as filters of Milvus: they hold for the same documents as in Python and in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings

from slimdex.indexes.errors import InputError
from slimdex.retrieval.catalog.where.conditions import Condition, UnsupportedError
from slimdex.retrieval.cluster.milvus_fields import ID_FIELD, fields_of, stored_values
from slimdex.retrieval.cluster.milvus_filter import filter_of, translated
from slimdex.retrieval.cluster.milvus_schema import described_fields
from slimdex.retrieval.cluster.milvus_server import Server
from slimdex.retrieval.sql import identifier
from tests.retrieval.catalog.condition_cases import (
    COLUMNS,
    CONSTANTS,
    expected,
    held,
    made_documents,
    made_table,
    texts,
    trees,
)

FIELDS = fields_of(COLUMNS)
FIELDLESS = ("huge", "cost", "tags")
"""Columns of types that have no counterpart."""


@pytest.fixture(scope="module")
def table() -> Iterator[duckdb.DuckDBPyConnection]:
    with made_table() as connection:
        yield connection


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(str(tmp_path_factory.mktemp("milvus") / "where.db")) as server:
        fill(server)
        assert len(FIELDS) == len(COLUMNS) - len(FIELDLESS)
        yield server


def fill(server: Server) -> None:
    described = described_fields(server.can, FIELDS, dim=2)
    index = {"vector": {"index_type": "FLAT", "metric_type": "IP", "params": {"params": {}}}}
    server.create("conditions", described, index)
    server.load("conditions")
    rows = [
        {"pk": i, "digest": i, "vector": [1.0, 0.0], **stored_values(FIELDS, document)}
        for i, document in enumerate(made_documents())
    ]
    server.put("conditions", rows)


def found_by(server: Server, filter: str) -> set[str]:
    return {row["id"] for row in server.rows("conditions", filter, ["id"])}


def check(server: Server, table: duckdb.DuckDBPyConnection, where: str) -> bool:
    """Whether the condition is translated; that the answers are the same is asserted."""
    try:
        filter = translated(where, COLUMNS, [ID_FIELD, *FIELDS])
    except InputError:
        return False
    assert found_by(server, filter) == expected(table, where), filter
    return True


thorough = settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.slow
@thorough
@given(where=texts())
@example(where="n > -9223372036854775808")
@example(where="NOT (n IN (1, NULL))")
@example(where="x IN (0, -1)")
@example(where="x > 2.5 AND NOT (f = 0.1)")
def test_a_filter_holds_for_the_same_documents(
    server: Server, table: duckdb.DuckDBPyConnection, where: str
) -> None:
    check(server, table, where)


@pytest.mark.slow
@thorough
@given(condition=trees())
def test_a_tree_holds_for_the_same_documents(server: Server, condition: Condition) -> None:
    try:
        filter = filter_of(condition, {field.column: field for field in FIELDS})
    except UnsupportedError:  # the smallest number of its type, or a column without a field
        return
    assert found_by(server, filter) == held(condition), filter


def test_what_is_not_simple_is_refused() -> None:
    for where in ("tags IS NULL", "huge = 7", "name LIKE 'a%'", "n % 2 = 1"):
        with pytest.raises(InputError, match="expected =, <>"):
            translated(where, COLUMNS, FIELDS)


SMALLEST = {"-9223372036854775808", "-128"}
"""Of their types, which some servers can't read."""


@pytest.mark.slow
@pytest.mark.parametrize("column", [column for column in CONSTANTS if column not in FIELDLESS])
def test_every_simple_comparison_of_a_column_is_translated(
    server: Server, table: duckdb.DuckDBPyConnection, column: str
) -> None:
    name = identifier(column)
    for constant in CONSTANTS[column]:
        for operator in ("=", "<>") if column == "flag" else ("<", "<=", "="):
            is_translated = check(server, table, f"{name} {operator} {constant}")
            is_unread = operator == "=" and constant in SMALLEST
            assert is_translated != is_unread, (operator, constant)
