"""`python -m bench` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.__main__ import app

ROOT = Path(__file__).parent.parent.parent


def bench(*words: object, folder: Path) -> str:
    command = [sys.executable, "-m", "bench", *map(str, words)]
    environment = {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    import os

    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*words: object, folder: Path, paths: Sequence[Path] = ()) -> str:
    """What a command says that ends with exit code 2; `paths` come first on sys.path."""
    command = [sys.executable, "-m", "bench", *map(str, words)]
    environment = {"PYTHONPATH": ":".join(map(str, [*paths, ROOT]))}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize(
    "command", ["retrieval", "peers", "filters", "encode", "sts", "reduction", "report", "readme"]
)
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage: " in result.output


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    assert "nothing: no such folder" in refused(
        "retrieval", "--data", tmp_path, "--sets", "nothing", folder=tmp_path
    )
    assert "peer 'Oracle'; expected some of hnswlib" in refused(
        "peers", "--only", "Oracle", folder=tmp_path
    )
    assert "no rows of retrieval" in refused("report", "--results", tmp_path, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_quick_run_from_encoding_to_the_page(beir: Path, tiny_bert: Path, tmp_path: Path) -> None:
    words = ("--data", beir, "--sets", "words", "--models", tiny_bert, "--quick")
    said = bench("retrieval", *words, folder=tmp_path)
    (file,) = (tmp_path / "bench-results").glob("retrieval-*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert f"{len(rows)} rows in" in said
    assert file.name == f"retrieval-words-quick-{tiny_bert.name}.jsonl"
    errors = {row["error"] for row in rows if "error" in row}
    assert not errors, errors
    assert {row["set"] for row in rows} == {"words (quick)"}
    assert {row["model"] for row in rows} == {tiny_bert.name}
    assert {"float32", "slimdex", "PCA", "truncate"} <= {row["method"] for row in rows}
    assert all(row["versions"]["numpy"] and row["processor"] for row in rows)
    bench("peers", *words, "--only", "FAISS HNSW", folder=tmp_path)
    results = ("--results", "bench-results")
    paths = bench("report", *results, folder=tmp_path).split()
    assert [Path(path).name for path in paths][:2] == ["index.html", "quality.png"]
    (tmp_path / "README.md").write_text("<!-- results: begin --><!-- results: end -->")
    assert "README.md: results changed" in bench("readme", *results, folder=tmp_path)
    assert "nothing changed" in bench("readme", *results, folder=tmp_path)


@pytest.mark.slow
def test_quick_needs_no_data(tmp_path: Path) -> None:
    """What CI runs: real text, the default model, the whole quick grid."""
    bench("retrieval", "--quick", folder=tmp_path)
    (file,) = (tmp_path / "bench-results").glob("retrieval-docstrings-*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert not [row["error"] for row in rows if "error" in row]
    by_method = {(r["method"], r.get("k"), r["effort"]): r for r in rows}
    exact, ours = by_method["float32", 384, 0], by_method["slimdex", 192, 200]
    assert exact["ndcg@10"] > 30
    assert ours["compression"] == 64
    assert ours["ndcg@10_high"] >= 0
    assert by_method["slimdex", 192, 0]["ndcg@10"] < exact["ndcg@10"]
