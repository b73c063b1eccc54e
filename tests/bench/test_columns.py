"""Rows of results say what columns are for, and reports read no other column."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from slimdex.bench.columns import COLUMNS, check_row, column_of
from slimdex.bench.machine import provenance
from slimdex.bench.reporting.experiments import EXPERIMENTS
from slimdex.bench.rows import FOLDER, read_rows

REPORTING = Path(__file__).parents[2] / "slimdex" / "bench" / "reporting"
NAMES = [each.name for each in EXPERIMENTS] + ["sweep"]
ROW_NAMES = {"row", "ours", "exact", "plain", "found", "best", "mine", "r", "own"}
"""What reports call a row of results."""
DERIVED = {"name", "side", "ways", "usual", "small", "found", "room", "worst_delta"}
"""What reports add to rows themselves."""


@pytest.mark.parametrize("experiment", NAMES)
def test_every_row_there_is(experiment: str) -> None:
    for row in read_rows(FOLDER, experiment):
        check_row(row)


def test_every_column_is_in_some_row() -> None:
    """But for failures, of which the repository holds none."""
    rows = [row for experiment in NAMES for row in read_rows(FOLDER, experiment)]
    used = {column_of(name) for row in rows for name in row}
    assert [column.name for column in COLUMNS if column not in used] == ["error"]


def columns_read(node: ast.AST) -> list[ast.expr]:
    """The names of columns in a part of a report: of a row's items, and of declared columns."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return [node.slice] if node.value.id in ROW_NAMES else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        places = {"Column": slice(1, 2), "columns_named": slice(1, None), "of_way": slice(1, 2)}
        return node.args[places.get(node.func.id, slice(0))]
    return []


def test_reports_read_columns_that_there_are() -> None:
    read = [
        (file.name, name.lineno, name.value)
        for file in sorted(REPORTING.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        for name in columns_read(node)
        if isinstance(name, ast.Constant) and isinstance(name.value, str)
        if name.value not in DERIVED
    ]
    assert len(read) > 200
    assert [place for place in read if column_of(place[2]) is None] == []


def test_where_it_was_measured_in_a_checkout_and_out_of_one() -> None:
    check_row(provenance(["duckdb"]))
    check_row(provenance() | {"commit": None})
