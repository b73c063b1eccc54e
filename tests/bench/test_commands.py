"""`slimdex bench` as a user runs it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slimdex.bench.command_line import app
from slimdex.bench.engines.measuring import MeasuredEngine, MeasuredStore
from slimdex.bench.engines.registry import Method, exact_method, part
from slimdex.bench.experiments import peers_study, points_study, search_study, similarity_study
from slimdex.bench.experiments.points_study import DEFAULTS
from slimdex.bench.experiments.similarity_study import SEVEN
from slimdex.bench.rows import FOLDER

from .conftest import Here

ROOT = Path(__file__).parent.parent.parent


def bench(*words: object, folder: Path) -> str:
    """What a command says, in this process; its experiments start their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def write_pairs(folder: Path) -> None:
    """Tables of 30 pairs of random words with scores, in place of each of the sets' files."""
    rng = np.random.default_rng(5)
    folder.mkdir()
    for table in (name for files in SEVEN.values() for name in files):
        texts = ["".join(rng.choice(list("abcdefgh"), 4)) for _ in range(60)]
        lines = [f"{texts[i]}\t{texts[i + 30]}\t{i % 6}\n" for i in range(30)]
        (folder / table).write_text("sentence1\tsentence2\tscore\n" + "".join(lines))


def few(dim: int, rows: int, **_: object) -> list[Method]:
    """The methods of the headline; other tests run the rest of the grid."""
    usual, small = (replace(DEFAULTS, k=part(dim, of), candidates=None) for of in (2, 4))
    one_percent = max(rows // 100, 10)
    ours = [Method("slimdex", usual, (0, 200)), Method("slimdex", small, (one_percent,))]
    return [exact_method(dim), *ours]


@pytest.mark.slow
@pytest.mark.usefixtures("library")
def test_a_quick_run_from_encoding_to_the_page(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs no data: the set is Python's docstrings."""
    monkeypatch.setattr(points_study, "grid", few)
    peers = [exact_method(32), Method.of_peer("FAISS HNSW")]
    monkeypatch.setattr(peers_study, "contenders", lambda *_: peers)
    monkeypatch.setattr(peers_study, "ROUNDS", 1)
    monkeypatch.setattr(peers_study, "engine_process", partial(Here, MeasuredEngine))
    monkeypatch.setattr(search_study, "QUICK_ROUNDS", 1)
    store = lambda *arguments: Here(MeasuredStore, *arguments[:4])  # noqa: E731
    monkeypatch.setattr(search_study, "store_process", store)
    for name, count in (("DOCUMENTS", 300), ("QUERIES", 60)):
        monkeypatch.setattr(f"slimdex.bench.datasets.QUICK_{name}", count)
    words = ("--models", tiny_bert, "--max-length", 64, "--quick")
    said = bench("retrieval", *words, folder=tmp_path)
    (file,) = (tmp_path / "bench-results").glob("retrieval-*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    counted, *table = said.splitlines()
    assert counted.startswith(f"{len(rows)} rows in")
    assert table[1] == "Quality"
    assert table[-1].startswith("| docstrings (quick) | 300 |")
    assert file.name == f"retrieval-docstrings-quick-{tiny_bert.name}.jsonl"
    assert [row["error"] for row in rows if "error" in row] == []
    assert {(row["set"], row["model"]) for row in rows} == {("docstrings (quick)", tiny_bert.name)}
    assert [row["method"] for row in rows] == ["float32", *["slimdex"] * 3]
    assert all(row["versions"]["numpy"] and row["processor"] for row in rows)
    said = bench("peers", *words, "--only", "FAISS HNSW", folder=tmp_path)
    assert "\nPeers: Search by vector (docstrings (quick), 300 vectors)" in said
    said = bench("search", *words, "--only", "slimdex", folder=tmp_path)
    assert "\n| slimdex |" in said
    paths = bench("report", folder=tmp_path).split()
    assert Path(paths[0]).name == "index.html"
    assert "docstrings (quick)" in (tmp_path / paths[0]).read_text()
    (tmp_path / "README.md").write_text("<!-- search: begin --><!-- search: end -->\n")
    (tmp_path / FOLDER).parent.mkdir(parents=True)
    (tmp_path / "bench-results").rename(tmp_path / FOLDER)
    assert "README.md: search changed" in bench("tables", folder=tmp_path)
    assert "nothing changed" in bench("tables", folder=tmp_path)


@pytest.mark.slow
def test_similarity_by_the_poolings_of_a_model(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similarity_study, "MAX_LENGTH", 64)
    write_pairs(tmp_path / "sts")
    said = bench("sts", "--data", ".", "--models", tiny_bert, folder=tmp_path)
    _, title, table = said.partition(f"\nSimilarity: {tiny_bert.name}, english\n")
    assert title
    (file,) = (tmp_path / "bench-results").glob("sts-*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {row["pooling"] for row in rows} == {"mean@-1", "mean@1,-1", "cls@-1", "wk"}
    assert len(table.splitlines()) == len(rows) + 2  # below the heads
