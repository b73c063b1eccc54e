"""The command line with word vectors: build, search, reduce, eval, distill, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ..conftest import GLOVE
from ..running import Runner, write


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
    corpus = ("--sif", "--corpus", "notes.jsonl")
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


def test_a_corpus_whose_column_is_named(glove: Runner) -> None:
    Path("letters.csv").write_text("kind,body\nx,rain rain rain\ny,the cat\n")
    write("same.jsonl", [{"text": "rain rain rain"}, {"text": "the cat"}])
    corpus = ("--sif", "--corpus", "letters.csv", "--text", "body")
    assert glove("distill", "glove.txt", *corpus, "--out", "fitted").code == 0
    assert glove("distill", "glove.txt", *corpus[:2], "same.jsonl", "--out", "same").code == 0
    made = [path for path in Path("fitted").iterdir() if path.suffix == ".safetensors"]
    assert made
    assert all(path.read_bytes() == Path("same", path.name).read_bytes() for path in made)
    said = refused(glove, "distill", "glove.txt", *corpus[:-1], "no", "--out", "none")
    assert "no column 'no' for the text; it has kind, body" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GLOVE + "short 1 2\n", "line 6: 2 numbers; expected a word and 4"),
        (GLOVE.replace("0.9", "nan"), "line 2: 'nan'; expected a finite number"),
        ("Once upon a time\n", "line 1: 'Once upon a time'; expected word vectors"),
        ("", "an empty file; expected word vectors"),
    ],
)
def test_bad_files_are_one_line_and_leave_nothing(glove: Runner, text: str, message: str) -> None:
    Path("glove.txt").write_text(text)
    for words in (["build", "notes.jsonl", "--model", "glove.txt"], ["distill", "glove.txt"]):
        said = refused(glove, *words, "--out", "out")
        assert f"error: {Path.cwd() / 'glove.txt'}: {message}" in said
    assert not [*Path("cache").iterdir()]


def test_options_of_transformers_are_refused(glove: Runner) -> None:
    build = ("build", "notes.jsonl", "--model", "glove.txt", "--out", "i")
    said = refused(glove, *build, "--max-length", "9")
    assert "max_length=9; expected none for word vectors" in said
    assert "expected mean or sif for word vectors" in refused(glove, *build, "--pooling", "cls")
