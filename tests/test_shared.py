"""Figures on the project's evaluation data, which is not part of a checkout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent.parent.parent / "shared" / "data" / "retrieval"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"no evaluation data in {DATA}"),
]


def slimdex(*words: object) -> Any:
    command = [sys.executable, "-m", "slimdex", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_scifact_is_as_published_and_compression_costs_nothing(tmp_path: Path) -> None:
    data, index = DATA / "scifact", tmp_path / "scifact.index"
    built = slimdex("build", data, "--out", index, "--passages", "off")  # as published: cut off
    assert built["documents"] == 5183
    labels = ("--queries", data / "queries.jsonl", "--qrels", data / "qrels" / "test.tsv")
    report = slimdex("eval", index, *labels)
    assert report["queries"] == 300
    exact, ours = report["exact"], report["index"]
    assert 100 * exact["ndcg@10"] == pytest.approx(64.51, abs=0.3)  # MTEB's figure
    assert 100 * ours["ndcg@10"] > 100 * exact["ndcg@10"] - 0.2
    assert ours["ram_bytes_per_vector"] <= 24
    assert exact["ram_bytes_per_vector"] == 1536
    assert ours["ram_bytes_fixed"] < 1e6
    assert ours["fidelity@10"] > 0.8
    assert slimdex("verify", index) == {"faults": []}
    # Without rescoring the codes alone must still be of use, and rotation alone changes nothing.
    slimdex("reduce", index, "--kind", "flat", "--candidates", "0", "--gamma", "0", "--k", "380")
    rotated = slimdex("eval", index, *labels)["index"]
    assert rotated["ndcg@10"] == pytest.approx(exact["ndcg@10"], abs=1e-3)
    assert rotated["fidelity@10"] > 0.99
