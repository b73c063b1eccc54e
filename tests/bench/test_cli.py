"""`slimdex bench` as a user runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slimdex.__main__ import main
from slimdex.bench.cli import app
from slimdex.bench.data.pairs import SEVEN
from slimdex.bench.engines.encoders import CONTENDERS
from slimdex.bench.experiments import encoding_study, retrieval_study, similarity_study
from slimdex.bench.experiments.measured_methods import OTHERS, REDUCERS, grid
from slimdex.bench.rows import FOLDER

ROOT = Path(__file__).parent.parent.parent


def bench(*words: object, folder: Path) -> str:
    """What a command says, in this process; its experiments start their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def refused(*words: object, folder: Path, paths: Sequence[Path] = ()) -> str:
    """What a command says that ends with exit code 2; `paths` come first on sys.path."""
    command = [sys.executable, "-m", "slimdex", "bench", *map(str, words)]
    environment = {"PYTHONPATH": ":".join(map(str, [*paths, ROOT]))}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


def write_pairs(folder: Path) -> None:
    """Tables of 30 pairs of random words with scores, in place of each of the sets' files."""
    rng = np.random.default_rng(5)
    folder.mkdir()
    for table in (name for files in SEVEN.values() for name in files):
        texts = ["".join(rng.choice(list("abcdefgh"), 4)) for _ in range(60)]
        lines = [f"{texts[i]}\t{texts[i + 30]}\t{i % 6}\n" for i in range(30)]
        (folder / table).write_text("sentence1\tsentence2\tscore\n" + "".join(lines))


def test_bad_input_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["slimdex", "bench", "peers", "--only", "Oracle"])
    with pytest.raises(SystemExit) as stopped:
        main()
    told = capsys.readouterr()
    assert (stopped.value.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert "--only 'Oracle'; expected some of hnswlib" in told.err


def test_a_report_on_nothing_names_the_folder_and_writes_nothing(tmp_path: Path) -> None:
    message = refused("report", "--results", "elsewhere", folder=tmp_path)
    assert message.startswith("error: elsewhere: no rows of results; ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["search", "encode", "sts"])
def test_a_report_shows_what_a_command_wrote_and_nothing_else(
    experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bench-results").mkdir()
    files = sorted((ROOT / FOLDER).glob(f"{experiment}-*.jsonl"))
    minilm = [file for file in files if file.stem.endswith("all-MiniLM-L6-v2")]
    shutil.copy([*minilm, *files][0], "bench-results")
    result = CliRunner().invoke(app, ["report", "--out", "page"])
    assert result.output.splitlines()[0] == "page/index.html"
    page = Path("page/index.html").read_text()
    text = {
        "encode": "Encoding: all-MiniLM-L6-v2",
        "search": "Search: debian-desc, all-MiniLM-L6-v2",
        "sts": "Similarity: all-MiniLM-L6-v2, english",
    }
    for name, title in text.items():
        assert (title in page) == (name == experiment), name
    assert "arguana" not in page


@pytest.mark.slow
def test_a_quick_run_from_encoding_to_the_page(
    beir: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a part of the grid and of the encoders, all of which other tests run."""
    few = {"float32", "int8", "slimdex", "PCA", "truncate"}
    monkeypatch.setattr(
        retrieval_study, "grid", lambda *a, **b: [m for m in grid(*a, **b) if m.name in few]
    )
    for name, few_texts in (("ROUNDS", 1), ("SHORT_TEXTS", 40), ("LONG_TEXTS", 4)):
        monkeypatch.setattr(encoding_study, name, few_texts)
    own = [each for each in CONTENDERS if each.name in {"slimdex auto", "slimdex fp32"}]
    monkeypatch.setattr(encoding_study, "CONTENDERS", own)
    words = ("--data", beir, "--sets", "words", "--models", tiny_bert, "--quick")
    said = bench("retrieval", *words, folder=tmp_path)
    (file,) = (tmp_path / "bench-results").glob("retrieval-*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    counted, *table = said.splitlines()
    assert counted.startswith(f"{len(rows)} rows in")
    assert table[1] == "nDCG@10 at 1/64 and 1/128 of the memory"
    assert table[-1].startswith(f"| words (quick) | {tiny_bert.name} |")
    assert file.name == f"retrieval-words-quick-{tiny_bert.name}.jsonl"
    errors = {row["error"] for row in rows if "error" in row}
    assert not errors, errors
    assert {row["set"] for row in rows} == {"words (quick)"}
    assert {row["model"] for row in rows} == {tiny_bert.name}
    assert {row["method"] for row in rows} == few
    assert all(row["versions"]["numpy"] and row["processor"] for row in rows)
    said = bench("peers", *words, "--only", "FAISS HNSW", folder=tmp_path)
    assert "\nBeside what people use: words (quick) (" in said
    said = bench("search", *words, "--only", "slimdex", folder=tmp_path)
    assert "\n| slimdex |" in said
    said = bench("encode", "--models", tiny_bert, folder=tmp_path)
    assert "\n| slimdex auto |" in said
    paths = bench("report", folder=tmp_path).split()
    assert Path(paths[0]).name == "index.html"
    assert "words (quick)" in (tmp_path / paths[0]).read_text()
    sections = ("results", "search", "encoding")
    marks = [f"<!-- {name}: begin --><!-- {name}: end -->\n" for name in sections]
    (tmp_path / "README.md").write_text("".join(marks))
    (tmp_path / FOLDER).parent.mkdir(parents=True)
    (tmp_path / "bench-results").rename(tmp_path / FOLDER)
    assert "README.md: results, search, encoding changed" in bench("tables", folder=tmp_path)
    assert "nothing changed" in bench("tables", folder=tmp_path)


@pytest.mark.slow
def test_quick_needs_no_data(tmp_path: Path) -> None:
    """What CI runs: real text, the default model, the whole quick grid, as a user starts it."""
    command = [sys.executable, "-m", "slimdex", "bench", "retrieval", "--quick"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "bench-results").glob("retrieval-docstrings-*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert not [row["error"] for row in rows if "error" in row]
    assert {row["method"] for row in rows} >= {*REDUCERS, *OTHERS, "float32", "RaBitQ"}
    by_method = {(r["method"], r.get("k"), r["effort"]): r for r in rows}
    exact, ours = by_method["float32", 384, 0], by_method["slimdex", 192, 200]
    assert exact["ndcg@10"] > 30
    assert ours["compression"] == 64
    assert ours["ndcg@10_high"] >= 0
    assert by_method["slimdex", 192, 0]["ndcg@10"] < exact["ndcg@10"]


@pytest.mark.slow
def test_similarity_by_the_poolings_of_a_model(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similarity_study, "MAX_LENGTH", 64)
    write_pairs(tmp_path / "sts")
    said = bench("sts", "--data", ".", "--models", tiny_bert, folder=tmp_path)
    assert f"\n{tiny_bert.name}, english\n" in said
    (file,) = (tmp_path / "bench-results").glob("sts-*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {row["pooling"] for row in rows} == {"mean@-1", "mean@1,-1", "cls@-1", "wk"}
    assert len(said.splitlines()) == len(rows) + 5  # a title, its heads, and a line for each row
