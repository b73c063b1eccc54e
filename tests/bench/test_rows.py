from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from slimdex.bench.rows import FOLDER, ResultsFile, read_rows
from slimdex.indexes.errors import InputError


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
