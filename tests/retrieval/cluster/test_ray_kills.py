"""Kill -9 of workers and of the builder: what ends is the index that nobody disturbed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from slimdex.retrieval.building import Sources, build
from slimdex.retrieval.collection import encoding
from slimdex.retrieval.collection.repair import verify
from slimdex.retrieval.documents import Document
from tests.chance import CHANCE, sweep
from tests.encoders import ReadingEncoder

from . import ray_child

pytest.importorskip("ray", reason="the extra ray is not installed")
psutil = pytest.importorskip("psutil", reason="the extra bench is not installed")

WORKERS_KILLED, BUILDERS_KILLED = (20, 5) if CHANCE.whole else (3, 1)


def workers_of(builder: subprocess.Popen[str]) -> list[Any]:
    """Its processes that compute."""
    try:
        below = psutil.Process(builder.pid).children(recursive=True)
        return [p for p in below if p.name().startswith("ray::_comp")]
    except psutil.NoSuchProcess:
        return []


def kill_some_workers(builder: subprocess.Popen[str], count: int, random: Random) -> int:
    """Kill workers at random times while it runs; returns how many."""
    killed = 0
    while killed < count and builder.poll() is None:
        time.sleep(random.uniform(0.05, 0.8))
        if found := workers_of(builder):
            try:
                random.choice(found).send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
            killed += 1
    return killed


def files_of(path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in path.iterdir() if "catalog" not in p.name}


@sweep
def test_a_build_ends_as_if_nobody_had_been_killed(
    tmp_path: Path, docstrings: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, path, random = tmp_path / "d.jsonl", tmp_path / "killed", Random(CHANCE.seed)
    lines = [{"id": f"{i}-{d.id}", "text": d.text} for i in range(2) for d in docstrings]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    killed, went_on = 0, 0
    for turn in range(BUILDERS_KILLED + 1):
        child = [sys.executable, "-m", f"{__package__}.ray_child", str(path), str(source)]
        with subprocess.Popen(child, stdout=subprocess.PIPE, text=True) as builder:
            assert builder.stdout is not None
            assert builder.stdout.readline() == "begun\n"
            share = -(-WORKERS_KILLED // (BUILDERS_KILLED + 1))
            killed += kill_some_workers(builder, min(share, WORKERS_KILLED - killed), random)
            if turn < BUILDERS_KILLED:
                builder.kill()
                continue
            went_on += "went on after" in builder.stdout.read()
        assert builder.returncode == 0
    assert (killed, went_on) == (WORKERS_KILLED, 1)
    assert verify(path) == []
    monkeypatch.setattr(encoding, "WINDOW", 16)
    sources = Sources.open([str(source)])
    undisturbed, _ = build(tmp_path / "whole", sources, ReadingEncoder, ray_child.SETTINGS)
    undisturbed.close()
    whole, ended = files_of(tmp_path / "whole"), files_of(path)
    assert whole.keys() == ended.keys()
    assert [name for name in whole if whole[name] != ended[name]] == []
