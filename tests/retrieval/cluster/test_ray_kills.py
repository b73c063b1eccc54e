"""Kill -9 of workers and of the builder: what ends is the index that nobody disturbed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import pytest

from slimdex.retrieval.building import Sources, build
from slimdex.retrieval.collection import encoding
from slimdex.retrieval.collection.repair import verify
from slimdex.retrieval.documents import Document
from tests.chance import CHANCE, sweep
from tests.encoders import ReadingEncoder

from . import ray_child
from .test_ray_workers import assert_same_files

pytest.importorskip("ray", reason="the extra cluster is not installed")
pytest.importorskip("psutil", reason="the extra bench is not installed")

WORKERS_KILLED, BUILDERS_KILLED = (20, 5) if CHANCE.whole else (3, 1)


@sweep
def test_a_build_ends_as_if_nobody_had_been_killed(
    tmp_path: Path, docstrings: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    from slimdex.bench.experiments.ray_study import build_with_kills

    source, path = tmp_path / "d.jsonl", tmp_path / "killed"
    lines = [{"id": f"{i}-{d.id}", "text": d.text} for i in range(2) for d in docstrings]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    child = [sys.executable, "-m", f"{__package__}.ray_child", str(path), str(source)]
    log, random = tmp_path / "log", Random(CHANCE.seed)
    begun = build_with_kills(child, WORKERS_KILLED, BUILDERS_KILLED, random, log)
    assert begun == BUILDERS_KILLED + 1
    assert "went on after" in log.read_text()
    assert verify(path) == []
    monkeypatch.setattr(encoding, "WINDOW", 16)
    sources = Sources.open([str(source)])
    undisturbed, _ = build(tmp_path / "whole", sources, ReadingEncoder, ray_child.SETTINGS)
    undisturbed.close()
    assert_same_files(tmp_path / "whole", path)
