"""Inverted lists of a small set, beside brute force."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slimdex.bench.cli import app
from slimdex.bench.columns import check_row
from slimdex.bench.experiments.retrieval_study import Task
from slimdex.bench.inverted import list_study
from slimdex.bench.inverted.list_study import KINDS, Asked, measure_lists
from slimdex.bench.reporting.tables.lists import lists
from slimdex.bench.reporting.verdict import lists_line
from slimdex.bench.rows import ResultsFile, Row
from slimdex.indexes.codes.kinds import ivf_lists
from slimdex.indexes.reducers.linear import Whitening
from tests.bench.conftest import ABOUT
from tests.encoders import WordEncoder

FACTS = {"set": "words", "model": "words"} | ABOUT


@pytest.fixture
def asked(task: Task) -> Asked:
    return Asked(["words"], task.dataset.query_texts[:20], WordEncoder())


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_study, "SHARES", (0.25,))
    monkeypatch.setattr(list_study, "CANDIDATES", (10, 700))
    monkeypatch.setattr(list_study, "TIMED", 8)


def measured(task: Task, asked: Asked, names: list[str], documents: int, folder: Path) -> list[Row]:
    results = ResultsFile(folder / "lists-words.jsonl")
    measure_lists(task.vectors, asked, names, results, FACTS, documents=documents, folder=folder)
    return list(results.rows.values())


def test_agreement_is_with_brute_force(
    task: Task, asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = np.sort(np.random.default_rng(0).choice(800, 700, replace=False))
    X = task.vectors.take(kept).astype(np.float16).astype(np.float32)
    whitening = Whitening(48, 0.0, 0.25).fit(X)
    a, b = (
        Y / np.linalg.norm(Y, axis=1, keepdims=True)
        for Y in map(whitening.transform, (asked.vectors, X))
    )
    exact = np.argsort(-(a @ b.T), axis=1)[:, :10]
    monkeypatch.setattr(list_study, "exact_nearest", lambda *_: exact)
    rows = measured(task, asked, ["pq", "ivf-pq"], 700, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lists-words.jsonl"]
    whole = [row for row in rows if row["candidates"] == 700 and row["lists_probed"] in (0, 7)]
    assert [row["agreement@10"] for row in whole] == pytest.approx([1, 1], abs=0.011)
    assert all(0.2 < row["agreement@10"] < 1 for row in rows if row["candidates"] == 10)


def test_rows_say_what_was_built(task: Task, asked: Asked, tmp_path: Path) -> None:
    rows = measured(task, asked, list(KINDS), 800, tmp_path)
    for row in rows:
        check_row(row)
        assert row["agreement@10_low"] <= row["agreement@10"] <= row["agreement@10_high"]
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["build_s"] == pytest.approx(row["fit_s"] + row["index_s"], rel=1e-4)
    found = {row["method"]: (row["kind"], row["k"], row["lists"]) for row in rows}
    assert ivf_lists(800) == 7
    assert found == {
        "pq": ("PQ6x4fs", 24, 0),
        "ivf-pq": ("IVF7,PQ6x4fs", 24, 7),
        "4-times-the-lists": ("IVF28,PQ6x4fs", 24, 28),
        "16-times-the-lists": ("IVF112,PQ6x4fs", 24, 112),
        "residual": ("IVF7,PQ6x4fsr", 24, 7),
        "inner-products": ("IVF7,PQ6x4fs", 24, 7),
    }
    assert {row["lists_probed"] for row in rows if row["method"] == "ivf-pq"} == {2, 7}
    assert {row["candidates"] for row in rows} == {10, 200, 700}
    assert len({row["key"] for row in rows}) == len(rows) == 3 * (1 + 2 * 5)


def test_a_run_replaces_rows_of_as_many_documents(task: Task, asked: Asked, tmp_path: Path) -> None:
    for documents in (640, 700, 640):
        rows = measured(task, asked, ["pq"], documents, tmp_path)
    assert [row["documents"] for row in rows] == [700] * 3 + [640] * 3
    shortest, *_ = lists(rows)
    (line,) = shortest.rows
    assert line[0].shown == "pq"
    assert lists_line(rows).startswith("words, 640 documents: pq ")


def test_copies_have_noise(task: Task, tmp_path: Path) -> None:
    file = list_study._sampled(task.vectors, 1700, tmp_path)
    X, own = file.take(np.arange(1700)), task.vectors.take(np.arange(800))
    assert np.allclose(X[:800], own, rtol=1e-3, atol=1e-3)
    for copies in (X[800:1600], X[1600:]):
        first = own[: len(copies)]
        lengths = np.linalg.norm(copies - first, axis=1) / np.linalg.norm(first, axis=1)
        assert lengths == pytest.approx(0.5, abs=2e-3)
    assert not np.allclose(X[800:900], X[1600:], atol=0.01)


@pytest.mark.slow
def test_on_the_command_line(
    beir: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["lists", "--data", str(beir), "--sets", "words", "--models", str(tiny_bert)]
    words += ["--documents", "640,900", "--only", "pq,ivf-pq", "--queries-of", "words"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.stdout.splitlines()[-1].startswith("words, 900 documents: ")
    (file,) = (tmp_path / "bench-results").glob("lists-words-*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {(row["documents"], row["queries"]) for row in rows} == {(640, 60), (900, 60)}
    assert {row["method"] for row in rows} == {"pq", "ivf-pq"}
    assert all(row["queries_of"] == "words" for row in rows)
    refused = CliRunner().invoke(app, ["lists", "--queries-of", "words"])
    assert "expected the folder of the sets" in str(refused.exception)
