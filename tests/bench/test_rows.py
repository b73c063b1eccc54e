from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slimdex.bench.machine import provenance
from slimdex.bench.reporting.tables import EXPERIMENTS
from slimdex.bench.rows import COLUMNS, FOLDER, ResultsFile, check_row, column_of, read_rows
from slimdex.errors import InputError

REPORTING = Path(__file__).parents[2] / "slimdex" / "bench" / "reporting"
NAMES = EXPERIMENTS
ROW_NAMES = {"row", "ours", "exact", "plain", "found", "best", "mine", "r", "own"}
"""Variables of the reports that hold a row of results."""
DERIVED = {"name", "side", "ways", "usual", "small", "found", "room", "plain"}
"""Values that reports add to a row."""


def test_rows_are_there_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "retrieval-a.jsonl"
    file = ResultsFile(path)
    file.append({"key": "1", "method": "float32", "p50_ms": 0.123456789})
    file.append({"key": "2", "method": "ünlü", "versions": {"x": 1 / 3}})
    assert ResultsFile(path).rows["1"]["p50_ms"] == 0.123457
    assert ResultsFile(path).rows["2"]["versions"]["x"] == 0.333333
    file.append({"key": "1", "method": "float32", "p50_ms": 2})
    assert ResultsFile(path).rows["1"]["p50_ms"] == 2
    assert len(read_rows(path.parent, "retrieval")) == 2
    assert read_rows(path.parent, "peers", needed=False) == []
    with pytest.raises(InputError, match=r"no rows of peers; expected peers\*.jsonl"):
        read_rows(path.parent, "peers")


def test_a_line_that_a_kill_cut_short_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "retrieval-a.jsonl"
    path.write_text('{"key": "1"}\n{"key": "2", "meth')
    file = ResultsFile(path)
    assert list(file.rows) == ["1"]
    file.append({"key": "3"})
    assert list(ResultsFile(path).rows) == ["1", "3"]


def _git(*words: str) -> str:
    folder = Path(__file__).parent
    return subprocess.run(
        ["git", "-C", folder, *words], capture_output=True, text=True, check=True
    ).stdout


def test_stored_rows_were_measured_at_commits_of_this_repository() -> None:
    """Each names one that is an ancestor; the code was that commit's."""
    if not (Path(__file__).parents[2] / ".git").exists() or "true" in _git(
        "rev-parse", "--is-shallow-repository"
    ):
        pytest.skip("no checkout with its history")
    commits = _git("log", "--format=%H").split()
    short = {commit[:12] for commit in commits}
    rows = [(path.name, row) for path in FOLDER.glob("*.jsonl") for row in _rows(path)]
    assert len(rows) > 1000
    wrong = {
        (name, row["commit"])
        for name, row in rows
        if not row["clean"] or row["commit"] not in short
    }
    assert wrong == set()


def _rows(path: Path) -> list[dict[str, Any]]:
    return list(ResultsFile(path).rows.values())


@pytest.mark.parametrize("experiment", NAMES)
def test_every_row_there_is(experiment: str) -> None:
    for row in read_rows(FOLDER, experiment):
        check_row(row)


def test_every_column_is_in_some_row() -> None:
    """But for failures, of which the repository holds none."""
    rows = [row for experiment in NAMES for row in read_rows(FOLDER, experiment)]
    used = {column_of(name) for row in rows for name in row}
    assert [column for column in COLUMNS if column not in used] == ["error"]


def columns_read(node: ast.AST) -> list[ast.expr]:
    """The names of columns in a part of a report: of a row's items, and of declared columns."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return [node.slice] if node.value.id in ROW_NAMES else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        places = {
            "Column": slice(1, 2),
            "columns_named": slice(1, None),
            "of_way": slice(1, 2),
            "values_of": slice(1, 2),
            "with_column": slice(0, 1),
        }
        return node.args[places.get(node.func.id, slice(0))]
    return []


def test_reports_read_columns_that_there_are() -> None:
    """The page of settings makes its rows itself."""
    read = [
        (file.name, name.lineno, name.value)
        for file in sorted({*REPORTING.rglob("*.py")} - {REPORTING / "settings_page.py"})
        for node in ast.walk(ast.parse(file.read_text()))
        for name in columns_read(node)
        if isinstance(name, ast.Constant) and isinstance(name.value, str)
        if name.value not in DERIVED
    ]
    assert len(read) > 150
    assert [place for place in read if column_of(place[2]) is None] == []


def test_where_it_was_measured_in_a_checkout_and_out_of_one() -> None:
    check_row(provenance(["duckdb"]))
    check_row(provenance() | {"commit": None})
