"""The command line with word vectors: build, search, reduce, eval, distill, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ..conftest import GLOVE
from ..running import Runner


def refused(glove: Runner, *words: str) -> str:
    """The error of a command that leaves no file, nor one in the cache."""
    before = {*Path().iterdir(), Path("cache")}
    said = glove.refuses(*words)
    assert {*Path().iterdir(), Path("cache")} == before
    return said


def first(glove: Runner, *words: str) -> str:
    return str(glove.found(*words)[0]["id"])


@pytest.mark.slow
def test_build_search_reduce_eval_and_move(notes: Runner) -> None:
    assert first(notes, "i", "dog", "-n", "2") in "03"
    assert first(notes, "i", "RAIN") == "1"
    assert notes("reduce", "i", "--kind", "flat", "--k", "2").code == 0
    assert first(notes, "i", "stocks") == "2"
    Path("q.jsonl").write_text('{"id": "q", "text": "rain"}\n')
    Path("qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    labels = ("--queries", "q.jsonl", "--qrels", "qrels.tsv")
    assert notes("eval", "i", *labels, "--json").json["exact"]["ndcg@10"] == 1
    Path("glove.txt").rename("moved.txt")
    assert "no such file or folder; if it has moved" in refused(notes, "search", "i", "rain")
    assert first(notes, "i", "rain", "--model", "moved.txt") == "1"
    assert notes("repair", "i", "--model", "moved.txt").code == 0
    assert first(notes, "i", "rain") == "1"


@pytest.mark.slow
def test_distill_a_transformer_and_build_with_it(glove: Runner, tiny_bert: Path) -> None:
    distill = ("distill", str(tiny_bert), "--out", "small")
    code, out, err = glove(*distill, "--dim", "8", "--trust-remote-code")
    assert (code, out) == (0, "57 tokens of 8 dimensions in small\n"), err
    assert err.startswith("note: code that comes with the model is run with your permissions\n")
    assert glove("build", "notes.jsonl", "--model", "small", "--out", "i").code == 0
    assert first(glove, "i", "rain rain") == "1"
    assert "small exists; expected a new folder" in refused(glove, *distill)
    shutil.rmtree("small")
    said = refused(glove, *distill, "--dim", "33")
    assert "dim=33; expected 1 to the model's 32" in said


def test_sif_with_a_corpus_and_with_frequencies(glove: Runner) -> None:
    corpus = ("--sif", "--corpus", "notes.jsonl", "--text", "text")
    assert glove("distill", "glove.txt", *corpus, "--out", "fitted", "--json").code == 0
    assert glove("build", "notes.jsonl", "--model", "fitted", "--out", "i").code == 0
    assert first(glove, "i", "stocks") == "2"
    Path("counts.txt").write_text("the 100\ncat 1\n")
    by_list = ("--sif", "--frequencies", "counts.txt", "--out", "listed")
    assert glove("distill", "glove.txt", *by_list).code == 0
    pooled = ("--model", "glove.txt", "--pooling", "sif", "--out", "j")
    assert glove("build", "notes.jsonl", *pooled).code == 0
    for words in (["--sif"], ["--corpus", "notes.jsonl"], ["--frequencies", "counts.txt"]):
        said = refused(glove, "distill", "glove.txt", *words, "--out", "none")
        assert "expected --sif with --corpus or --frequencies, or none of the three" in said


def test_a_bad_file_is_one_line_and_leaves_nothing(glove: Runner) -> None:
    Path("glove.txt").write_text(GLOVE + "short 1 2\n")
    for words in (["build", "notes.jsonl", "--model", "glove.txt"], ["distill", "glove.txt"]):
        error = refused(glove, *words, "--out", "out")
        assert f"error: {Path.cwd() / 'glove.txt'}: line 6" in error
    assert not [*Path("cache").iterdir()]
