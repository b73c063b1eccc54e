"""`slimdex tune` and `eval` on the command line."""

from __future__ import annotations

import re

import numpy as np
import pytest

from slimdex.retrieval import building
from slimdex.retrieval.quality import tuning, tuning_targets
from slimdex.retrieval.quality.metric_choice import Choice

from .conftest import WORDS
from .running import Runner, write

BUILD = "build d.jsonl --vectors v.npy --out x"


@pytest.fixture
def run(bare: Runner, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """`slimdex` beside 900 documents and their vectors."""
    monkeypatch.setattr(tuning, "CHOOSING", 100)
    monkeypatch.setattr(tuning_targets, "PROVING", 400)
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(30, 16))
    vectors = centres[rng.integers(30, size=900)] + 0.6 * rng.normal(size=(900, 16))
    np.save("v.npy", vectors.astype(np.float32))
    write("d.jsonl", [{"id": i, "text": "a"} for i in range(900)])
    return bare


def test_tune_prints_what_it_chooses_and_apply_keeps_the_proof(run: Runner) -> None:
    assert run(BUILD).code == 0
    facts = run("info x --json").json
    assert facts["certificate"] is None
    code, out, _ = run("tune x --agreement 0.9")
    lines = out.splitlines()
    assert code == 0
    heads = "kind k candidates bytes agreement at least p50 ms p99 ms"
    assert lines[0].split() == heads.split()
    assert any(line.rstrip().endswith("chosen") for line in lines)
    assert "with 95% confidence, by 400 queries" in out
    assert lines[-1] == "--apply gives the index these settings"
    assert run("info x --json").json["settings"] == facts["settings"]

    report = run("tune x --agreement 0.9 --apply --json").json
    assert report["applied"] is True
    now = run("info x --json").json
    assert now["settings"] == report["chosen"]["settings"]
    assert now["certificate"]["target"] == 0.9
    assert now["certificate"]["bound"] == report["certificate"]["bound"] >= 0.9
    shown = run("info x").out
    (line,) = [line for line in shown.splitlines() if line.startswith("certificate ")]
    assert line.split() == ["certificate", *now["certificate"]["said"].split()]
    assert not re.search(r"[{}\[\]']|None|True|False|\d\.\d{5}", shown)  # nothing of Python's

    report = run("eval x --json").json
    proved = report["proved"]
    assert proved["bound"] < proved["estimate"] == report["index"]["agreement@10"]
    shown = " ".join(run("eval x").out.split())
    assert f"at least {proved['bound']:.4f} with 95% confidence, by 500 queries: vectors" in shown


def test_bad_targets_are_refused(run: Runner) -> None:
    assert run(BUILD).code == 0
    without_encoder = "--queries d.jsonl"
    for options in ("--agreement 1", "--ram much", "--p99-ms -1", "--qrels q", without_encoder):
        run.refuses(f"tune x {options}")


def test_an_explicit_gamma_of_0_is_kept(slimdex: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "choose_metric", lambda *_: Choice((0.5, 1.0), "raw"))
    texts = [f"{a} {b}" for a in ("cat", "dog", "fog", "mat", "rain", "sat") for b in WORDS]
    write("many.jsonl", [{"id": i, "text": text} for i, text in enumerate(texts)])
    for option, gamma in (("", 1.0), ("--gamma 0", 0.0), ("--beta 0", 0.0)):
        built = slimdex(f"build many.jsonl --out x{option[2:3]} {option} --json")
        assert built.json["settings"]["gamma"] == gamma
