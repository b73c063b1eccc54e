"""Kill -9 of workers and of the builder: what ends is the index that nobody disturbed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.execution.progress import listening
from slimdex.indexes.settings import Settings
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import encoding
from slimdex.retrieval.operations.building import Sources, build
from slimdex.retrieval.operations.repair import verify
from tests.chance import CHANCE, sweep
from tests.encoders import ReadingEncoder

from .test_ray_workers import assert_same_files

psutil = pytest.importorskip("psutil", reason="the extra bench is not installed")

WORKER = "ray::_comp"
"""The name of a process of `RayWorkers` begins so, cut to the 15 letters that Linux keeps."""
COPIES = CHANCE.count(2, 1)
WORKERS_KILLED, BUILDERS_KILLED = (4, 5) if CHANCE.whole else (2, 1)
"""Workers killed of each builder, and builders."""
SETTINGS = Settings(24)


class Slow(ReadingEncoder):
    """Takes as long for each text as a small transformer, to leave time for a kill."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        time.sleep(0.005 * len(texts))
        return super().encode(texts)


def build_on_ray(path: str, source: str) -> None:
    """In a process of its own: build the index, or the rest of it."""
    from slimdex.retrieval.cluster.ray_workers import RayWorkers

    encoding.WINDOW = 16
    with RayWorkers("local", 2) as workers:
        sources = Sources.open([source])
        with listening(note=partial(print, flush=True)):
            collection, _ = build(Path(path), sources, Slow, SETTINGS, workers=workers)
        collection.close()


def kill_workers(builder: subprocess.Popen[bytes], random: Random) -> None:
    """Kill workers at random times while the builder runs."""
    killed = 0
    while killed < WORKERS_KILLED and builder.poll() is None:
        time.sleep(random.uniform(0.05, 0.5))
        with suppress(psutil.NoSuchProcess):
            below = psutil.Process(builder.pid).children(recursive=True)
            if workers := [each for each in below if each.name().startswith(WORKER)]:
                random.choice(workers).send_signal(signal.SIGKILL)
                killed += 1
    assert killed == WORKERS_KILLED


@sweep
def test_a_build_ends_as_if_nobody_had_been_killed(
    tmp_path: Path, docstrings: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, path, log = tmp_path / "d.jsonl", tmp_path / "killed", tmp_path / "log"
    lines = [{"id": f"{i}-{d.id}", "text": d.text} for i in range(COPIES) for d in docstrings]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    child = f"from {__name__} import build_on_ray; build_on_ray({str(path)!r}, {str(source)!r})"
    command, random = [sys.executable, "-c", child], Random(CHANCE.seed)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for turn in range(BUILDERS_KILLED + 1):
        with (
            log.open("a") as out,
            subprocess.Popen(command, stdout=out, stderr=out, env=environment) as process,
        ):
            if turn < BUILDERS_KILLED:
                kill_workers(process, random)
                while process.poll() is None and not [*path.glob("work-*/encoded-*.safetensors")]:
                    time.sleep(0.01)
                assert process.poll() is None, log.read_text()
                process.kill()
    assert process.returncode == 0, log.read_text()
    assert "resumed after" in log.read_text()
    assert verify(path) == []
    monkeypatch.setattr(encoding, "WINDOW", 16)
    sources = Sources.open([str(source)])
    undisturbed, _ = build(tmp_path / "whole", sources, ReadingEncoder, SETTINGS)
    undisturbed.close()
    assert_same_files(tmp_path / "whole", path)
