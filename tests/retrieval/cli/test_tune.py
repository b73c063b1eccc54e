"""`slimdex tune`, what a build proves, and `eval --self`, on the command line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.__main__ import main
from slimdex.retrieval.collection import targets, tuning
from slimdex.retrieval.collection.collection import Collection

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `slimdex` in this process, in a folder with 900 documents and their vectors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(tuning, "CHOOSING", 100)
    monkeypatch.setattr(targets, "PROVING", 400)
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(30, 16))
    vectors = centres[rng.integers(30, size=900)] + 0.6 * rng.normal(size=(900, 16))
    np.save("v.npy", vectors.astype(np.float32))
    Path("d.jsonl").write_text(
        "".join(json.dumps({"id": i, "text": "a"}) + "\n" for i in range(900))
    )

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["slimdex", *words])
        capsys.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        return (code, *capsys.readouterr())

    return run


BUILD = ("build", "d.jsonl", "--vectors", "v.npy", "--out", "x")


def test_a_build_says_what_it_proves_and_tune_what_it_chooses(run: Run) -> None:
    code, _, err = run(*BUILD)
    assert code == 0
    assert "at least 0.9" in err
    assert "holds if real queries are no harder than these" in err
    facts = json.loads(run("info", "x", "--json")[1])
    assert facts["certificate"]["pool"].startswith("vectors of two documents")
    shown = run("info", "x")[1]
    assert f"certificate       {facts['certificate']['said']}\n" in shown
    assert "candidates=auto" in shown
    assert not re.search(r"[{}\[\]']|None|True|False|\d\.\d{5}", shown)  # nothing of Python's

    code, out, _ = run("tune", "x", "--agreement", "0.9")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == [
        "kind",
        "k",
        "candidates",
        "bytes",
        "agreement",
        "at",
        "least",
        "p50",
        "ms",
        "p99",
        "ms",
    ]
    assert any(line.rstrip().endswith("chosen") for line in lines)
    assert "with 95% confidence, by 400 queries" in out
    assert lines[-1] == "the same with --apply puts it in force"
    assert json.loads(run("info", "x", "--json")[1])["settings"] == facts["settings"]

    report = json.loads(run("tune", "x", "--agreement", "0.9", "--apply", "--json")[1])
    assert report["applied"] is True
    now = json.loads(run("info", "x", "--json")[1])
    assert now["settings"] == report["chosen"]["settings"]
    assert now["certificate"]["target"] == 0.9
    assert now["certificate"]["bound"] == report["certificate"]["bound"] >= 0.9
    assert run("verify", "x")[0] == 0
    assert "puts it in force" not in run("tune", "x", "--agreement", "0.9", "--apply")[1]


def test_a_build_for_a_target(run: Run) -> None:
    code, _, err = run(*BUILD, "--agreement", "0.9", "--ram", "1MB")
    assert code == 0
    assert "chosen: " in err
    with Collection.open("x", read_only=True) as collection:
        certificate = collection.core.state.certificate
    assert certificate is not None
    assert certificate.target == 0.9


def test_a_build_for_what_can_not_be_had_keeps_the_defaults(run: Run) -> None:
    code, _, err = run(*BUILD, "--agreement", "0.95", "--ram", "100")
    assert code == 0
    assert "100 bytes: nothing within that was found to reach an agreement of 0.95; the near" in err
    assert "; the settings stay as they are" in err
    assert json.loads(run("info", "x", "--json")[1])["certificate"]["target"] is None


def test_eval_by_itself_has_a_bound(run: Run) -> None:
    run(*BUILD)
    report = json.loads(run("eval", "x", "--self", "--sample", "80", "--json")[1])
    proved = report["proved"]
    assert proved["bound"] < proved["estimate"] == report["index"]["agreement@10"]
    shown = " ".join(run("eval", "x", "--self", "--sample", "80")[1].split())
    assert f"at least {proved['bound']:.4f} with 95% confidence, by 80 queries: vectors" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--agreement", "1"), "agreement=1.0; expected above 0 and below 1"),
        (("--ram", "much"), "--ram 'much'; expected bytes, such as 200MB"),
        (("--disk", "0"), "--disk '0'; expected bytes"),
        (("--p99-ms", "-1"), "p99_ms=-1.0; expected above 0"),
        (("--qrels", "q"), "--qrels without --queries"),
        (("--agreement", "0.9", "--ram", "100", "--apply"), "nothing within that was found"),
        (("--agreement", "0.9999"), "400 queries prove 0.99"),
    ],
)
def test_bad_input(run: Run, words: tuple[str, ...], expected: str) -> None:
    if expected.startswith("nothing"):
        run(*BUILD)
    code, out, err = run("tune", "x", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert expected in err


def test_words_for_an_index_of_given_vectors(run: Run) -> None:
    run(*BUILD)
    Path("q.txt").write_text("a\nb\nc\n")
    code, _, err = run("tune", "x", "--queries", "q.txt")
    assert code == 2
    assert "vectors were given for this index; expected no queries in words" in err


def test_what_no_queries_can_prove_is_refused_before_anything_is_built(run: Run) -> None:
    code, out, err = run(*BUILD, "--agreement", "0.999")
    assert (code, out) == (2, "")
    assert "agreement=0.999: 400 queries prove 0.9901 at most; expected no more than that" in err
    assert not Path("x").exists()


def test_settings_beside_a_target(run: Run) -> None:
    code, _, err = run(*BUILD, "--k", "8", "--agreement", "0.9")
    assert code == 2
    assert "settings beside --agreement" in err
    assert not Path("x").exists()
