"""`slimdex migrate` on the command line: word vectors, then a transformer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .running import Runner, write

WORDS = ["".join(letters) for letters in np.random.default_rng(5).choice(list("abcdef"), (60, 4))]


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
    code, out, err = old("migrate", "i", "--model", "new.txt", "--sample", "30")
    assert code == 0, err
    lines = out.splitlines()
    heads = "option nDCG@10 at least gain gain at least hours"
    assert lines[0].split() == heads.split()
    assert [line.strip().split("  ")[0] for line in lines[1:3]] == ["stay", "encode again"]
    assert len(lines[1].split()) == 4, "staying has no gain"
    assert "advice: stay: encoding again shows no proved gain" in out

    labels = ("--queries", "q.jsonl", "--qrels", "qrels.tsv")
    report = old("migrate", "i", "--model", "new.txt", *labels, "--wait", "5", "--json").json
    assert (report["queries"], report["error"]) == (20, 0.05)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--model", "new.txt", "--undo"),
        ("--model", "new.txt", "--minutes", "1"),
        ("--model", "new.txt", "--continue", "--sample", "30"),
        ("--model", "new.txt", "--queries", "q.jsonl"),
        ("--model", "new.txt", "--dimensions", "8"),
        ("--model", "new.txt", "--api-key-file", "key"),
        ("--continue",),
        ("--undo",),
    ],
)
def test_options_that_do_not_fit_together_are_refused(old: Runner, words: tuple[str, ...]) -> None:
    old.refuses("migrate", "i", *words)


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
