"""Figures on the project's evaluation data, which is not part of a checkout."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slimdex.command_line import app

from .chance import CHANCE, sweep

DATA = Path(__file__).parent.parent.parent / "shared" / "data" / "retrieval"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"no evaluation data in {DATA}"),
]


def slimdex(*words: object) -> Any:
    done = CliRunner().invoke(app, [*map(str, words), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def part(name: str, folder: Path, count: int, asked: int) -> Path:
    """Some labels of a set, and some texts, those of the labels first."""
    (folder / "qrels").mkdir(parents=True)
    lines = (DATA / name / "corpus.jsonl").read_text("utf-8").splitlines(keepends=True)
    labels = (DATA / name / "qrels" / "test.tsv").read_text().splitlines(keepends=True)[: asked + 1]
    labelled = {line.split("\t")[1] for line in labels}
    lines.sort(key=lambda line: json.loads(line)["_id"] not in labelled)
    (folder / "corpus.jsonl").write_text("".join(lines[:count]), "utf-8")
    (folder / "qrels" / "test.tsv").write_text("".join(labels))
    shutil.copy(DATA / name / "queries.jsonl", folder)
    return folder


@sweep
def test_scifact_is_as_published_and_compression_costs_nothing(tmp_path: Path) -> None:
    count, asked, lost, tokens = (5183, 339, 0.2, 256) if CHANCE.whole else (640, 60, 1.0, 32)
    data, index = part("scifact", tmp_path / "data", count, asked), tmp_path / "scifact.index"
    cut = ("--passages", "off", "--max-length", tokens)  # as published
    built = slimdex("build", data, "--out", index, *cut)
    assert built["documents"] == count
    labels = ("--queries", data / "queries.jsonl", "--qrels", data / "qrels" / "test.tsv")
    report = slimdex("eval", index, *labels)
    exact, ours = report["exact"], report["index"]
    if CHANCE.whole:
        assert report["queries"] == 300
        assert 100 * exact["ndcg@10"] == pytest.approx(64.51, abs=0.3)  # MTEB's figure
    assert 100 * ours["ndcg@10"] > 100 * exact["ndcg@10"] - lost
    assert ours["ram_bytes_per_vector"] <= 24
    assert exact["ram_bytes_per_vector"] == 1536
    assert ours["ram_bytes_fixed"] < 1e6
    assert ours["encoder_agreement@10"] > 0.8
    assert slimdex("verify", index) == {"faults": []}
    # Without rescoring the codes alone must still be of use, and rotation alone changes nothing.
    slimdex("reduce", index, "--kind", "flat", "--candidates", "0", "--gamma", "0", "--k", "380")
    rotated = slimdex("eval", index, *labels)["index"]
    assert rotated["ndcg@10"] == pytest.approx(exact["ndcg@10"], abs=1e-3)
    assert rotated["encoder_agreement@10"] > 0.99
