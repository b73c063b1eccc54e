"""Commands in processes of their own, and an environment's size."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from slimdex.bench.engines import peer_programs
from slimdex.bench.engines.processes import WorkerError
from slimdex.bench.experiments import start_study
from slimdex.bench.reporting.study_tables import start
from slimdex.bench.rows import read_rows
from slimdex.retrieval.encoders.transformer import TransformerEncoder
from tests.bench.test_cli import bench

TEXTS = {"1": "the cat", "2": "a dog and the rain", "3": "dog dog"}


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A file with the texts."""
    path = tmp_path / "documents.jsonl"
    path.write_text("".join(f"{json.dumps({'id': i, 'text': t})}\n" for i, t in TEXTS.items()))
    return path


PROGRAM = """
import pathlib, sys
_, library, action, folder, model, argument = sys.argv
if action == "build":
    assert len(pathlib.Path(argument).read_text().splitlines()) == 2
    pathlib.Path(folder).mkdir()
else:
    assert action == "search" and pathlib.Path(folder).is_dir()
"""
"""In place of another library's, whose import takes seconds."""


@pytest.mark.slow
def test_rows_of_a_small_run(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    program = SimpleNamespace(__file__=tmp_path / "program.py")
    monkeypatch.setattr(start_study, "peer_programs", program)
    monkeypatch.setattr(start_study, "PACKAGES", {"other": ("numpy",)})
    monkeypatch.setattr(start_study, "MODEL", str(tiny_bert))
    monkeypatch.setattr(start_study, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(start_study, "QUICK_DOCUMENTS", 2)
    said = bench("start", "--quick", folder=tmp_path)
    every = read_rows(tmp_path / "bench-results", "start")
    rows = {row["method"]: row for row in every if "way" not in row}
    ours = ["python -c pass", "slimdex --help", "slimdex info", "slimdex search"]
    assert list(rows) == [*ours, "other"]
    assert {(row["documents"], row["processes"]) for row in rows.values()} == {(2, 1)}
    floor, search = rows["python -c pass"]["start_s"], rows["slimdex search"]
    assert 0 < floor < min(search["start_s"], search["first_s"])
    busy = {row["method"]: row for row in every if "way" in row}
    assert list(busy) == ["slimdex search", "search", "search_many of 2", "add 2", "slimdex serve"]
    assert [row["error"] for row in busy.values() if "error" in row] == []
    for row in busy.values():
        for way in ("alone", "busy"):
            assert 0 <= row[f"{way}_cpu_s"] < 60
            assert 0 < row[f"{way}_s"] < 60
    assert busy["search"]["busy_s"] < busy["slimdex search"]["busy_s"]
    for table, own in zip(start(every), (rows, busy), strict=True):
        assert len(table.rows) == len(own)
        assert f"\n| {' | '.join(table.heads)} |\n" in said


@pytest.mark.slow
def test_sentence_transformers_finds_the_nearest(
    tiny_bert: Path, documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "index")
    for action, argument in (("build", str(documents)), ("search", "rain")):
        peer_programs.main("sentence-transformers", action, folder, str(tiny_bert), argument)
    encoder = TransformerEncoder(str(tiny_bert), precision="fp32")
    scores = encoder.encode([*TEXTS.values()]) @ encoder.encode(["rain"])[0]
    expected = sorted(TEXTS, key=lambda id: -scores[[*TEXTS].index(id)])
    assert json.loads(capsys.readouterr().out) == expected


@pytest.mark.slow
def test_an_installation_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(WorkerError, match=r"No matching distribution|a subprocess"):
        bench("start", "--install", "--quick", folder=tmp_path)
