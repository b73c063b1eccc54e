"""Kill -9 of workers and of the builder: what ends is the index that nobody disturbed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import encoding
from slimdex.retrieval.ingest.repair import verify
from slimdex.retrieval.operations.building import Sources, build
from tests.chance import CHANCE, sweep
from tests.encoders import ReadingEncoder

from . import ray_child
from .test_ray_workers import assert_same_files

pytest.importorskip("ray", reason="the extra cluster is not installed")
psutil = pytest.importorskip("psutil", reason="the extra bench is not installed")

WORKER = "ray::_comp"
"""The name of a process of `RayWorkers` begins so, cut to the 15 letters that Linux keeps."""
PAUSE_S = 0.5
"""Seconds from one kill to the next, at most."""
COPIES = CHANCE.count(2, 1)
WORKERS_KILLED, BUILDERS_KILLED = (20, 5) if CHANCE.whole else (3, 1)


def build_with_kills(command: Sequence[str], random: Random, log: Path) -> None:
    """Begin a build again after each kill -9 of itself, until it ends; kill workers meanwhile."""
    killed = 0
    for turn in range(BUILDERS_KILLED + 1):
        with log.open("a") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
            share = (WORKERS_KILLED - killed) // (BUILDERS_KILLED + 1 - turn)
            killed += kill_workers(process, share, random)
            if turn < BUILDERS_KILLED:
                assert process.poll() is None, f"ended after {turn} kills:\n{log.read_text()}"
                process.kill()
        assert process.returncode == (-signal.SIGKILL if turn < BUILDERS_KILLED else 0)
    assert killed == WORKERS_KILLED


def kill_workers(builder: subprocess.Popen[bytes], count: int, random: Random) -> int:
    """Kill workers at random times while the builder runs; returns how many were killed."""
    killed = 0
    while killed < count and builder.poll() is None:
        time.sleep(random.uniform(0.05, PAUSE_S))
        with suppress(psutil.NoSuchProcess):
            below = psutil.Process(builder.pid).children(recursive=True)
            if found := [each for each in below if each.name().startswith(WORKER)]:
                random.choice(found).send_signal(signal.SIGKILL)
                killed += 1
    return killed


@sweep
def test_a_build_ends_as_if_nobody_had_been_killed(
    tmp_path: Path, docstrings: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, path = tmp_path / "d.jsonl", tmp_path / "killed"
    lines = [{"id": f"{i}-{d.id}", "text": d.text} for i in range(COPIES) for d in docstrings]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    child = [sys.executable, "-m", f"{__package__}.ray_child", str(path), str(source)]
    log, random = tmp_path / "log", Random(CHANCE.seed)
    build_with_kills(child, random, log)
    assert "resumed after" in log.read_text()
    assert verify(path) == []
    monkeypatch.setattr(encoding, "WINDOW", 16)
    sources = Sources.open([str(source)])
    undisturbed, _ = build(tmp_path / "whole", sources, ReadingEncoder, ray_child.SETTINGS)
    undisturbed.close()
    assert_same_files(tmp_path / "whole", path)
