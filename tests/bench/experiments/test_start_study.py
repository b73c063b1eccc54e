"""Commands in processes of their own, and an environment's size."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import slimdex.bench.commands.start as command
from slimdex.bench.cli import app
from slimdex.bench.engines import peer_programs
from slimdex.bench.engines.environments import run, site_bytes
from slimdex.bench.engines.remote_object import WorkerError
from slimdex.bench.experiments import start_study
from slimdex.bench.reporting.tables.studies import start
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


@pytest.mark.slow
def test_rows_of_a_small_run(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_study, "MODEL", str(tiny_bert))
    monkeypatch.setattr(start_study, "QUICK_ROUNDS", 1)
    one = {"sentence-transformers": start_study.PACKAGES["sentence-transformers"]}
    monkeypatch.setattr(start_study, "PACKAGES", one)
    monkeypatch.setattr(command, "QUICK_DOCUMENTS", 2)
    said = bench("start", "--quick", folder=tmp_path)
    rows = {row["method"]: row for row in read_rows(tmp_path / "bench-results", "start")}
    assert list(rows)[:4] == ["python -c pass", "slimdex --help", "slimdex info", "slimdex search"]
    assert "sentence-transformers" in rows
    assert {(row["documents"], row["processes"]) for row in rows.values()} == {(2, 1)}
    floor, search = rows["python -c pass"]["start_s"], rows["slimdex search"]
    assert 0 < floor < min(search["start_s"], search["first_s"])
    (table,) = start([*rows.values()])
    assert len(table.rows) == len(rows)
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


def test_a_process_that_fails_ends_with_its_last_line() -> None:
    code = "import sys; print('first\\nlast', file=sys.stderr); sys.exit(3)"
    with pytest.raises(WorkerError, match=r"^last$"):
        run([sys.executable, "-c", code])
    with pytest.raises(WorkerError, match="exit code 4"):
        run([sys.executable, "-c", "raise SystemExit(4)"])
    assert run([sys.executable, "-c", "import os; print(os.environ['A'])"], {"A": "b"}) == "b\n"


def test_the_size_of_an_environment_leaves_its_tools_out(tmp_path: Path) -> None:
    for name in ("numpy/core/a.so", "pip/x.py", "pip-24.0.dist-info/METADATA", "numpy.libs/b.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"123")
    (tmp_path / "six.py").write_bytes(b"12")
    assert site_bytes(tmp_path) == 8


@pytest.mark.slow
def test_an_installation_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    words = ["start", "--install", "--quick", "--out", str(tmp_path)]
    with pytest.raises(WorkerError, match=r"No matching distribution|a subprocess"):
        CliRunner().invoke(app, words, catch_exceptions=False)
