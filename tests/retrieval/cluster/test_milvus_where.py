"""Conditions as filters: they hold for the same documents in DuckDB and in Milvus."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slimdex.retrieval.cluster.milvus_columns import ID_FIELD, fields_of, stored_values
from slimdex.retrieval.cluster.milvus_server import Server
from slimdex.retrieval.cluster.milvus_where import UntranslatedError, translated
from slimdex.retrieval.documents import Document
from slimdex.retrieval.sql import identifier

COLUMNS = {
    "n": "BIGINT",
    "small": "TINYINT",
    "huge": "HUGEINT",
    "price": "DECIMAL(5,2)",
    "cost": "DECIMAL(38,10)",
    "x": "DOUBLE",
    "f": "FLOAT",
    "name": "VARCHAR",
    "flag": "BOOLEAN",
    "day": "DATE",
    "moment": "TIMESTAMP",
    "hour": "TIME",
    "odd name": "INTEGER",
    "tags": "VARCHAR[]",
}
VALUES: dict[str, list[Any]] = {
    "n": [0, 1, -1, 2, 5, 2**53 + 1, 2**63 - 1, -(2**63)],
    "small": [-128, 127, 0, 3],
    "huge": [10**30, -(10**30), 0, 7],
    "price": [Decimal("0.10"), Decimal("-1.50"), Decimal("999.99"), Decimal("2.00")],
    "cost": [Decimal("0.1"), Decimal("12345678901234567890.5"), Decimal("-3")],
    "x": [0.1, -0.0, 1e300, float("inf"), float("-inf"), float("nan"), 2.5, 2.0],
    "f": [0.10000000149011612, 2.5, -1.0, float("nan")],
    "name": ["", "a", "ab", "ab%", "a_b", "B", 'q"\\', "ü€😀", "\U0010ffff", "it's\n\t\x01", "z"],
    "flag": [True, False],
    "day": [date(1970, 1, 1), date(2024, 2, 29), date(1969, 12, 31)],
    "moment": [datetime(2024, 2, 29), datetime(2024, 2, 29, 12, 0, 0, 1), datetime(1960, 1, 1)],
    "hour": [time(0), time(23, 59, 59, 999999), time(12)],
    "odd name": [1, 2, 3],
    "tags": [["a"], []],
}
CONSTANTS: dict[str, list[str]] = {
    "n": [
        "0",
        "1",
        "-1",
        "2.5",
        "1e0",
        "2e0",
        "9223372036854775807",
        "-9223372036854775808",
        "99999999999999999999",
        "'5'",
        "NULL",
        "1 + 1",
    ],
    "small": ["127", "-128", "300", "-300", "2.5", "NULL"],
    "huge": ["7", "1000000000000000000000000000000", "0.5", "NULL"],
    "price": ["0.1", "0.10", "2", "-1.505", "1000", "NULL"],
    "cost": ["0.1", "12345678901234567890.5", "-3", "NULL"],
    "x": ["0", "0.1", "1e-1", "2", "2.5", "-1e300", "NULL"],
    "f": ["0.1", "1e-1", "2.5", "-1", "NULL"],
    "name": [
        "''",
        "'a'",
        "'ab'",
        "'it''s\n\t\x01'",
        "'q\"\\'",
        "'ü€😀'",
        "'\U0010ffff'",
        "NULL",
        "lower('AB')",
    ],
    "flag": ["true", "false", "NULL"],
    "day": [
        "'2024-02-29'",
        "DATE '1970-01-01'",
        "TIMESTAMP '2024-02-29 12:00:00'",
        "DATE '2024-02-28' + 1",
        "NULL",
    ],
    "moment": [
        "'2024-02-29 12:00:00.000001'",
        "DATE '2024-02-29'",
        "TIMESTAMP '1960-01-01'",
        "NULL",
    ],
    "hour": ["'12:00:00'", "TIME '00:00:00'", "NULL"],
    "odd name": ["2", "NULL"],
}
LIKES = ["'a%'", "'%'", "'ab'", "''", "'ab\\%'", "'\U0010ffff%'", "'ü€%%'", "NULL"]
OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


def atoms() -> st.SearchStrategy[str]:
    def of(column: str) -> st.SearchStrategy[str]:
        name, constant = identifier(column), st.sampled_from(CONSTANTS[column])
        operators = ["=", "<>", *OPERATORS[6:]] if column == "flag" else OPERATORS
        found = [
            st.builds(f"{name} {{}} {{}}".format, st.sampled_from(operators), constant),
            st.builds(f"{{1}} {{0}} {name}".format, st.sampled_from(operators), constant),
            st.builds(f"{name} {{}} NULL".format, st.sampled_from(["IS", "IS NOT"])),
            st.lists(constant, min_size=1, max_size=3).map(
                lambda values: f"{name} IN ({', '.join(values)})"
            ),
        ]
        if column != "flag":
            found.append(st.builds(f"{name} BETWEEN {{}} AND {{}}".format, constant, constant))
        if column == "name":
            like = st.sampled_from(["LIKE", "NOT LIKE", "^@"])
            found.append(st.builds(f"({name} {{}} {{}})".format, like, st.sampled_from(LIKES)))
        return st.one_of(found)

    extra = st.sampled_from(["flag", "true", "false", "flag IS TRUE", "flag IS NOT FALSE"])
    return st.one_of([*(of(column) for column in CONSTANTS), extra])


def conditions() -> st.SearchStrategy[str]:
    return st.recursive(
        atoms(),
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("(NOT {})".format, inner),
        ),
        max_leaves=5,
    )


def some_atom(rng: random.Random) -> str:
    """One comparison, without hypothesis."""
    column = rng.choice([*CONSTANTS])
    name, constants = identifier(column), CONSTANTS[column]
    operators = ["=", "<>"] if column == "flag" else OPERATORS
    found = [
        f"{name} {rng.choice(operators)} {rng.choice(constants)}",
        f"{name} IN ({rng.choice(constants)}, {rng.choice(constants)})",
        f"{name} IS NOT NULL",
    ]
    if column == "name":
        found.append(f"(name LIKE {rng.choice(LIKES)})")
    return rng.choice(found)


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return made_documents()


def made_documents() -> list[Document]:
    """Each value of each column somewhere, and each column without one."""
    columns = {name: [*values, None] for name, values in VALUES.items()}
    longest = max(map(len, columns.values()))
    return [
        Document(
            f"d{i}",
            "",
            metadata={
                name: values[(i + i // longest * shift) % len(values)]
                for shift, (name, values) in enumerate(columns.items())
            },
        )
        for i in range(3 * longest)
    ]


@pytest.fixture(scope="module")
def table(documents: list[Document]) -> duckdb.DuckDBPyConnection:
    return made_table(documents)


def made_table(documents: list[Document]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    described = ", ".join(f"{identifier(name)} {type_}" for name, type_ in COLUMNS.items())
    connection.execute(f"CREATE TABLE documents(id VARCHAR, {described})")
    marks = ", ".join(["?"] * (len(COLUMNS) + 1))
    for document in documents:
        values = [document.id, *(document.metadata[name] for name in COLUMNS)]
        connection.execute(f"INSERT INTO documents VALUES ({marks})", values)
    return connection


@pytest.fixture(scope="module")
def server(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    fields = [*fields_of(COLUMNS)]
    with Server(str(tmp_path_factory.mktemp("milvus") / "where.db")) as server:
        fill(server, documents)
        assert len(fields) == len(COLUMNS) - 1
        yield server


def fill(server: Server, documents: list[Document]) -> None:
    from slimdex.retrieval.cluster.milvus_schema import described_fields

    fields = fields_of(COLUMNS)
    described = described_fields(server.can, fields, dim=2)
    index = {"vector": {"index_type": "FLAT", "metric_type": "IP", "params": {"params": {}}}}
    server.create("conditions", described, index)
    server.load("conditions")
    rows = [
        {"pk": i, "digest": i, "vector": [1.0, 0.0], **stored_values(fields, document)}
        for i, document in enumerate(documents)
    ]
    server.put("conditions", rows)


def found_by(server: Server, filter: str) -> set[str]:
    return {row["id"] for row in server.rows("conditions", filter, ["id"])}


def expected(table: duckdb.DuckDBPyConnection, where: str) -> set[str]:
    return {id for (id,) in table.sql("FROM documents").filter(where).project("id").fetchall()}


def check(server: Server, table: duckdb.DuckDBPyConnection, where: str) -> bool:
    """Whether the condition is translated; that the answers are the same is asserted."""
    try:
        filter = translated(where, COLUMNS, [ID_FIELD, *fields_of(COLUMNS)])
    except UntranslatedError:
        return False
    assert found_by(server, filter) == expected(table, where), filter
    return True


@pytest.mark.slow
@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(where=conditions())
@example(where="n > -9223372036854775808")
@example(where="NOT (n IN (1, NULL))")
@example(where="x > 2.5 AND NOT (f = 0.1)")
def test_a_filter_holds_for_the_same_documents(
    server: Server, table: duckdb.DuckDBPyConnection, where: str
) -> None:
    check(server, table, where)


@pytest.mark.slow
@pytest.mark.parametrize("column", CONSTANTS)
def test_every_comparison_of_a_column_is_translated(
    server: Server, table: duckdb.DuckDBPyConnection, column: str
) -> None:
    name = identifier(column)
    untranslated = []
    for constant in CONSTANTS[column]:
        for operator in ("=", "IS DISTINCT FROM") if column == "flag" else ("<", "<=", "="):
            if not check(server, table, f"{name} {operator} {constant}"):
                untranslated.append((operator, constant))
    assert untranslated == []
