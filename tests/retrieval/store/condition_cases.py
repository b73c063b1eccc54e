"""Documents, conditions on their columns, and which documents Python and DuckDB find by them."""

from __future__ import annotations

from datetime import date, datetime
from functools import cache
from operator import eq, ge, gt, le, lt
from typing import Any

import duckdb
from hypothesis import strategies as st

from slimdex.retrieval.documents import Document
from slimdex.retrieval.store.where.conditions import And, Compare, Condition, Not, Or
from slimdex.system.duckdb_library import connect, identifier

COLUMNS = {
    "n": "BIGINT",
    "x": "DOUBLE",
    "name": "VARCHAR",
    "flag": "BOOLEAN",
    "day": "DATE",
    "moment": "TIMESTAMP",
    "odd name": "BIGINT",
    "tags": "VARCHAR[]",
}
VALUES: dict[str, list[Any]] = {
    "n": [0, 1, -1, 2, 5, 2**53 + 1, 2**63 - 1, -(2**63)],
    "x": [0.1, -0.0, 1e300, float("inf"), float("-inf"), float("nan"), 2.5, 2.0],
    "name": ["", "a", "ab", "ab%", "a_b", "B", 'q"\\', "ü€😀", "\U0010ffff", "it's\n\t\x01", "z"],
    "flag": [True, False],
    "day": [date(1970, 1, 1), date(2024, 2, 29), date(1969, 12, 31)],
    "moment": [datetime(2024, 2, 29), datetime(2024, 2, 29, 12, 0, 0, 1), datetime(1960, 1, 1)],
    "odd name": [1, 2, 3],
    "tags": [["a"], []],
}
OPERANDS: dict[str, list[Any]] = {
    "n": [-1, 0, 2.5, 5, 2**63 - 1],
    "x": [0.1, 2, -1e300],
    "name": VALUES["name"],
    "flag": VALUES["flag"],
    "day": VALUES["day"],
    "moment": VALUES["moment"],
}
"""Values of trees, as frameworks have them."""
SIGNS = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}


TEXT_OPERATORS = ("CONTAINS", "CONTAINS IN ANY CASE")


def trees(*text_operators: str) -> st.SearchStrategy[Condition]:
    """Conditions as trees; operators on texts alone are named."""

    def comparisons(column: str) -> st.SearchStrategy[Condition]:
        value = st.sampled_from(OPERANDS[column])
        signs = ["="] if column == "flag" else [*SIGNS]
        signs += text_operators if column == "name" else ()
        return st.one_of(
            st.builds(Compare, st.just(column), st.sampled_from(signs), value),
            st.builds(Compare, st.just(column), st.just("IS NULL")),
            st.builds(
                Compare,
                st.just(column),
                st.just("IN"),
                st.lists(value, min_size=1, max_size=3).map(tuple),
            ),
        )

    return st.recursive(
        st.one_of([comparisons(column) for column in OPERANDS]),
        lambda inner: st.one_of(
            st.builds(And, st.lists(inner, max_size=3).map(tuple)),
            st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
            st.builds(Not, inner),
        ),
        max_leaves=6,
    )


@cache
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


def made_table() -> duckdb.DuckDBPyConnection:
    connection = connect()  # in UTC
    described = ", ".join(f"{identifier(name)} {type_}" for name, type_ in COLUMNS.items())
    connection.execute(f"CREATE TABLE documents(id VARCHAR, {described})")
    marks = ", ".join(["?"] * (len(COLUMNS) + 1))
    for document in made_documents():
        values = [document.id, *(document.metadata[name] for name in COLUMNS)]
        connection.execute(f"INSERT INTO documents VALUES ({marks})", values)
    return connection


def expected(table: duckdb.DuckDBPyConnection, where: str) -> set[str]:
    """The documents that DuckDB finds."""
    return {id for (id,) in table.execute(f"SELECT id FROM documents WHERE ({where})").fetchall()}


def held(condition: Condition) -> set[str]:
    """The documents for which a condition holds, by Python."""
    return {d.id for d in made_documents() if holds(condition, d.metadata)}


def holds(condition: Condition, row: Any) -> bool:
    if isinstance(condition, Not):
        return not holds(condition.part, row)
    if isinstance(condition, Compare):
        return compares(condition, row[condition.column])
    parts = (holds(part, row) for part in condition.parts)
    return all(parts) if isinstance(condition, And) else any(parts)


def compares(condition: Compare, found: Any) -> bool:
    sign, value = condition.operator, condition.value
    if sign == "IS NULL":
        return found is None
    if found is None:
        return False
    if sign in SIGNS:
        return bool(SIGNS[sign](ordered(found), ordered(value)))
    if sign == "IN":
        return ordered(found) in map(ordered, value)
    return value.lower() in found.lower() if "CASE" in sign else value in found


def ordered(value: Any) -> Any:
    """A value as it sorts: what is no number after all numbers, a day as its midnight."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return (1, 0) if value != value else (0, value)
