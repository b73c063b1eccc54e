from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.bench.rows import ResultsFile, key_of, read_rows
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


@pytest.mark.parametrize("line", ["nonsense", "{}", "[1]", '"text"'])
def test_a_line_that_is_no_row(tmp_path: Path, line: str) -> None:
    path = tmp_path / "retrieval-a.jsonl"
    path.write_text(f'{{"key": "1"}}\n{line}\n')
    with pytest.raises(InputError, match="line 2: no row of results"):
        ResultsFile(path)


def test_keys_tell_measurements_apart() -> None:
    assert key_of({"a": 1, "b": None}) == key_of({"b": None, "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})
