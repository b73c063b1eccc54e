"""The command line with word vectors: build, search, reduce, eval, distill, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slimdex.__main__ import main

GLOVE = "cat 1 0 0.5 0\ndog 0.9 0.2 0.4 0\nrain 0 1 0 0.1\nstocks 0 0 0.1 1\nthe 0.2 0.2 0.2 0.2\n"
NOTES = ["the cat", "rain, rain", "the stocks", "dog and cat"]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`slimdex` in a folder with word vectors and notes: its exit code and what it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    Path("glove.txt").write_text(GLOVE)
    rows = [json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(NOTES)]
    Path("notes.jsonl").write_text("".join(rows))

    def called(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["slimdex", *words])
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        return code, *capsys.readouterr()

    return called


def ids(run: Run, *words: str) -> list[str]:
    code, out, err = run("search", *words, "--json")
    assert code == 0, err
    return [hit["id"] for hit in json.loads(out)["queries"][0]["hits"]]


def refused(run: Run, *words: str) -> str:
    before = {*Path().iterdir(), Path("cache")}
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), (code, out, err)
    assert {*Path().iterdir(), Path("cache")} == before
    return err


@pytest.mark.slow
def test_build_search_reduce_eval_and_move(run: Run) -> None:
    assert run("build", "notes.jsonl", "--model", "glove.txt", "--out", "i")[0] == 0
    assert ids(run, "i", "dog", "-n", "2")[0] in "03"
    assert ids(run, "i", "RAIN")[0] == "1"
    assert run("reduce", "i", "--kind", "flat", "--k", "2")[0] == 0
    assert ids(run, "i", "stocks")[0] == "2"
    Path("q.jsonl").write_text('{"id": "q", "text": "rain"}\n')
    Path("qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    code, out, _ = run("eval", "i", "--queries", "q.jsonl", "--qrels", "qrels.tsv", "--json")
    assert code == 0
    assert json.loads(out)["exact"]["ndcg@10"] == 1
    Path("glove.txt").rename("moved.txt")
    assert "no such file or folder; if it has moved" in refused(run, "search", "i", "rain")
    assert ids(run, "i", "rain", "--model", "moved.txt")[0] == "1"
    assert run("repair", "i", "--model", "moved.txt")[0] == 0
    assert ids(run, "i", "rain")[0] == "1"


@pytest.mark.slow
def test_distill_a_transformer_and_build_with_it(run: Run, tiny_bert: Path) -> None:
    code, out, err = run("distill", str(tiny_bert), "--out", "small", "--dim", "8")
    assert (code, out) == (0, "57 tokens of 8 dimensions in small\n"), err
    assert run("build", "notes.jsonl", "--model", "small", "--out", "i")[0] == 0
    assert ids(run, "i", "rain rain")[0] == "1"
    assert "small exists; expected a new folder" in refused(
        run, "distill", str(tiny_bert), "--out", "small"
    )
    shutil.rmtree("small")
    said = refused(run, "distill", str(tiny_bert), "--out", "small", "--dim", "33")
    assert "dim=33; expected 1 to the model's 32" in said


def test_sif_with_a_corpus_and_with_frequencies(run: Run) -> None:
    corpus = ("--sif", "--corpus", "notes.jsonl")
    assert run("distill", "glove.txt", *corpus, "--out", "fitted", "--json")[0] == 0
    assert run("build", "notes.jsonl", "--model", "fitted", "--out", "i")[0] == 0
    assert ids(run, "i", "stocks")[0] == "2"
    Path("counts.txt").write_text("the 100\ncat 1\n")
    by_list = ("--sif", "--frequencies", "counts.txt", "--out", "listed")
    assert run("distill", "glove.txt", *by_list)[0] == 0
    assert (
        run("build", "notes.jsonl", "--model", "glove.txt", "--pooling", "sif", "--out", "j")[0]
        == 0
    )
    for words in (["--sif"], ["--corpus", "notes.jsonl"], ["--frequencies", "counts.txt"]):
        said = refused(run, "distill", "glove.txt", *words, "--out", "none")
        assert "expected --sif with --corpus or --frequencies, or none of the three" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GLOVE + "short 1 2\n", "line 6: 2 numbers; expected a word and 4"),
        (GLOVE.replace("0.9", "nan"), "line 2: 'nan'; expected a finite number"),
        ("Once upon a time\n", "line 1: 'Once upon a time'; expected word vectors"),
        ("", "an empty file; expected word vectors"),
    ],
)
def test_bad_files_are_one_line_and_leave_nothing(run: Run, text: str, message: str) -> None:
    Path("glove.txt").write_text(text)
    for words in (["build", "notes.jsonl", "--model", "glove.txt"], ["distill", "glove.txt"]):
        said = refused(run, *words, "--out", "out")
        assert f"error: {Path.cwd() / 'glove.txt'}: {message}" in said
    assert not Path("out").exists()
    assert not [*Path("cache").iterdir()]


def test_options_of_transformers_are_refused(run: Run) -> None:
    build = ("build", "notes.jsonl", "--model", "glove.txt", "--out", "i")
    assert "max_length=9; expected none for word vectors" in refused(
        run, *build, "--max-length", "9"
    )
    assert "expected mean or sif for word vectors" in refused(run, *build, "--pooling", "cls")
