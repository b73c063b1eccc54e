"""Models on the command line: distilled, moved, with code of their own, broken, and replaced."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from slimdex.retrieval.encoders import fast_encoder
from tests.chance import CHANCE, sweep
from tests.encoders import WIDTH

from .running import Runner, write

WORDS = ["".join(letters) for letters in np.random.default_rng(5).choice(list("abcdef"), (60, 4))]


@pytest.mark.slow
def test_distill_a_transformer_and_build_with_it(slimdex: Runner, tiny_bert: Path) -> None:
    distill = f"models --distill {tiny_bert} --out small"
    code, out, err = slimdex(f"{distill} --dim 8 --trust-remote-code")
    assert (code, out) == (0, "57 tokens of 8 dimensions in small\n"), err
    assert slimdex("build pets.jsonl --model small --out i").code == 0
    assert slimdex.found("i rain fell on the roof")[0]["id"] == "rain"
    assert "small exists; expected a new folder" in slimdex.refuses(distill)
    shutil.rmtree("small")
    said = slimdex.refuses(f"{distill} --dim 33")
    assert "dim=33; expected 1 to the model's 32" in said
    assert not Path("small").exists()


def test_sif_with_a_corpus_and_with_frequencies(slimdex: Runner, words: Path) -> None:
    distill = f"models --distill {words} --out"
    corpus = "--corpus pets.jsonl"
    assert slimdex(f"{distill} fitted {corpus} --json").json["dimensions"] == 32
    assert slimdex("build pets.jsonl --model fitted --out i").code == 0
    assert slimdex.found("i rain fell")[0]["id"] == "rain"
    Path("counts.txt").write_text("the 100\ncat 1\n")
    assert slimdex(f"{distill} listed --frequencies counts.txt").code == 0
    assert slimdex("build pets.jsonl --pooling sif --out j").code == 0


def test_a_bad_file_is_one_line_and_leaves_nothing(
    slimdex: Runner, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(Path("cache").absolute()))
    lines = words.read_text().splitlines()
    Path("bad.txt").write_text("\n".join([*lines, "short 1 2\n"]))
    for line in (
        "build pets.jsonl --model bad.txt --out out",
        "models --distill bad.txt --out out",
    ):
        place = f"error: {Path.cwd() / 'bad.txt'}: line {len(lines) + 1}"
        assert place in slimdex.refuses(line)
    assert {*Path().rglob("*")} <= {Path(name) for name in ("pets.jsonl", "bad.txt", "cache")}


def test_where_a_model_has_moved_to(slimdex: Runner, words: Path) -> None:
    shutil.copy(words, "words.txt")
    assert slimdex("build pets.jsonl --model words.txt --out i").code == 0
    Path("words.txt").rename("moved.txt")
    assert "no such file or folder; if it has moved" in slimdex.refuses("search i rain")
    assert slimdex("repair i --model moved.txt").code == 0
    code, out, _ = slimdex("export i --to sentence-transformers --out exported")
    assert (code, out) == (0, "a model of reduced vectors of 3 dimensions in exported\n")


@sweep
def test_a_models_code_is_to_be_trusted_again(bert: Runner) -> None:
    write("more.jsonl", [{"id": f"x{i}", "text": f"the cat {i} and the dog"} for i in range(9)])
    built = bert("build pets.jsonl --out pets --precision fp32 --trust-remote-code")
    assert built.code == 0
    write("others.jsonl", [{"id": f"y{i}", "text": f"a dog {i}"} for i in range(9)])
    lines = "search pets rain", "add pets more.jsonl", "sync pets others.jsonl"
    for line in CHANCE.sample([*lines, "info pets --health", "eval pets"], 3):
        said = bert(line)
        assert said.code == 2, line
        assert "has custom code; expected --trust-remote-code" in said.err
        done = bert(line, "--trust-remote-code")
        assert "has custom code" not in done.err


def vectors_file(name: str, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(len(WORDS), 8))
    lines = (
        f"{w} {' '.join(f'{x:.4f}' for x in v)}\n" for w, v in zip(WORDS, vectors, strict=True)
    )
    Path(name).write_text("".join(dict.fromkeys(lines)))


@pytest.fixture
def old(bare: Runner, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """`slimdex` beside an index "i" by old.txt, word vectors of another file, and labels."""
    monkeypatch.setenv("SLIMDEX_CACHE", str(Path("cache").absolute()))
    vectors_file("old.txt", 0)
    vectors_file("new.txt", 1)
    rng = np.random.default_rng(2)
    texts = [" ".join(rng.choice(WORDS, 6)) for _ in range(80)]
    write("d.jsonl", [{"id": str(i), "text": text} for i, text in enumerate(texts)])
    write("q.jsonl", [{"id": f"q{i}", "text": texts[i][:14]} for i in range(20)])
    labels = "".join(f"q{i}\t{i}\t1\n" for i in range(20))
    Path("qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + labels)
    assert bare("build", "d.jsonl", "--model", "old.txt", "--out", "i").code == 0
    return bare


def test_a_table_or_a_report(old: Runner) -> None:
    labels = ("--queries", "q.jsonl", "--qrels", "qrels.tsv")
    code, out, err = old("migrate", "i", "--model", "new.txt", "--sample", "30", *labels)
    assert code == 0, err
    lines = out.splitlines()
    heads = "option nDCG@10 at least gain gain at least hours"
    assert lines[0].split() == heads.split()
    assert [line.strip().split("  ")[0] for line in lines[1:3]] == ["stay", "encode again"]
    assert len(lines[1].split()) == 4, "staying has no gain"
    assert "advice: stay" in out

    report = old("migrate", "i", "--model", "new.txt", *labels, "--wait", "5", "--json").json
    assert (report["queries"], report["error"]) == (20, 0.05)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--model", "new.txt", "--undo"),
        ("--model", "new.txt", "--minutes", "1"),
        ("--model", "new.txt", "--continue", "--sample", "30"),
        ("--model", "new.txt", "--sample", "30"),
        ("--model", "new.txt", "--queries", "q.jsonl"),
        ("--model", "new.txt", "--dimensions", "8"),
        ("--model", "new.txt", "--api-key-file", "key"),
        ("--continue",),
        ("--undo",),
    ],
)
def test_options_that_do_not_fit_together_are_refused(
    old: Runner, options: tuple[str, ...]
) -> None:
    old.refuses("migrate", "i", *options)


def test_encoded_again_in_slices(old: Runner) -> None:
    first = old("migrate", "i", "--model", "new.txt", "--continue", "--minutes", "0")
    assert first.out == "80 of 80 encoded again; --continue goes on\n"
    assert "encoded=80" in old("info", "i").out
    assert old("migrate", "i", "--undo", "--shared-filesystem").code == 0
    assert old("info", "i", "--json").json["next_encoder"] is None
    last = old("migrate", "i", "--model", "new.txt", "--continue", "--json").json
    assert (last["rows"], last["total"], last["finished"]) == (80, 80, True)
    assert old("info", "i", "--json").json["encoder"]["model"] == str(Path("new.txt").resolve())
    assert "its vectors are this encoder's" in old.refuses(
        "migrate", "i", "--model", "new.txt", "--continue"
    )
    assert len(old.found("i", WORDS[0], "-n", "3")) == 3
    assert old("verify", "i").code == 0


@pytest.mark.slow
def test_a_transformer_with_all_its_options(old: Runner, tiny_bert: Path) -> None:
    code, _, err = old(
        *("migrate", "i", "--model", str(tiny_bert), "--pooling", "cls", "--max-length", "16"),
        *("--precision", "fp32", "--query-prompt", "the ", "--document-prompt", "rain "),
        *("--trust-remote-code", "--continue"),
    )
    assert code == 0, err
    spec = old("info", "i", "--json").json["encoder"]
    assert (spec["pooling"], spec["max_length"]) == ("cls@-1", 16)
    assert spec["prompts"] == ["the ", "rain "]
    assert old.found("i", WORDS[1], "--trust-remote-code")
    Path("more.jsonl").write_text('{"id": "n", "text": "the cat"}\n')
    assert old("add", "i", "more.jsonl", "--trust-remote-code").code == 0


@sweep
def test_a_repository_is_built_fast_and_migrated_later(
    bare: Runner, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not CHANCE.whole:  # the default model's vectors take half a minute
        monkeypatch.setattr(fast_encoder, "DEFAULT_MODEL", str(tiny_bert))
        monkeypatch.setattr(fast_encoder, "DIMENSIONS", WIDTH)
    Path("code").mkdir()
    for i in range(100):
        Path(f"code/f{i}.py").write_text(f"def f{i}(x):\n    return x + {i}\n")
    Path("code/boiler.py").write_text('def heat(water):\n    """Warm it up."""\n')
    assert bare("build code --fast --out i").code == 0
    assert bare("info i --json").json["passages"]["tokens"] == 128
    assert bare.found("i make water hot")[0]["id"] == "boiler.py"
    assert bare("migrate i --model all-MiniLM-L6-v2 --continue").code == 0
    assert bare("info i --json").json["encoder"]["type"] == "transformer"
    assert bare.found("i make water hot")[0]["id"] == "boiler.py"


def test_fast_beside_another_encoder_is_refused(slimdex: Runner) -> None:
    expected = "--fast beside another encoder or vectors; expected one of them"
    for other in ("--model words.txt", "--vectors vectors.npy", "--pooling mean"):
        assert expected in slimdex.refuses(f"build pets.jsonl --fast {other} --out i")
    assert not Path("i").exists()
