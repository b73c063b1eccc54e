"""Ray: real processes compute the parts, in whatever order, and some are killed, builders too."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.cluster import ray_workers
from slimdex.retrieval.cluster.ray_workers import RayWorkers
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders import encoding
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.sources.source import Sources
from slimdex.retrieval.store.manifest import Manifest
from slimdex.system.index_names import is_index
from slimdex.system.progress import listening
from slimdex.system.workers import IN_THIS_PROCESS, PartError
from tests.building import build
from tests.chance import CHANCE, sweep
from tests.encoders import ReadingEncoder
from tests.retrieval.cli.running import PETS, Runner, write
from tests.retrieval.server.running import built

from .in_workers import BUILD, Deadly

psutil = pytest.importorskip("psutil", reason="the extra bench is not installed")
ray = pytest.importorskip("ray", reason="the extra cluster is not installed")

pytestmark = pytest.mark.slow

WORKER = "ray::_comp"
"""The name of a process of `RayWorkers` begins so, cut to the 15 letters that Linux keeps."""
COPIES, TEXTS = CHANCE.count(2, 1), CHANCE.count(1200, 250)
WORKERS_KILLED, BUILDERS_KILLED = (4, 5) if CHANCE.whole else (1, 1)
"""Workers killed of each builder, and builders."""
SETTINGS = Settings(24)
SPARE = ("start_monitor", "start_log_monitor", "start_api_server")
"""Processes that scale a cluster, copy its logs and show it; each takes seconds to start."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayWorkers]:
    with pytest.MonkeyPatch.context() as patch:
        for name in SPARE:
            patch.setattr(f"ray._private.node.Node.{name}", lambda *_, **__: None, raising=False)
        workers = RayWorkers("local", 2)
    with workers:
        yield workers


def test_parts_come_back_in_their_order_from_other_processes(cluster: RayWorkers) -> None:
    def slower_first(part: int) -> tuple[int, int]:
        time.sleep(0.1 if part % 5 == 0 else 0)
        return part * part, os.getpid()

    found = list(cluster.map(slower_first, range(40)))
    assert [(part, square) for part, (square, _) in found] == [(i, i * i) for i in range(40)]
    processes = {process for _, (_, process) in found}
    assert os.getpid() not in processes
    assert len(processes) == 2


def test_parts_are_taken_as_they_are_needed(cluster: RayWorkers) -> None:
    """A corpus is not read into memory before the first of it is encoded."""
    taken = []

    def parts() -> Iterator[int]:
        for i in range(1000):
            taken.append(i)
            yield i

    for i, (part, _) in enumerate(cluster.map(abs, parts())):
        assert part == i
        assert len(taken) <= i + 1 + 4 * 2
        if i == 50:
            break


def test_what_fails_is_told_with_its_part(cluster: RayWorkers) -> None:
    def failing(part: int) -> int:
        if part == 3:
            raise InputError("part 3; expected another")
        if part == 6:
            raise ZeroDivisionError("division\nby nothing")
        return part

    with pytest.raises(PartError, match=r"^part 3; expected another$") as caught:
        list(cluster.map(failing, range(9)))
    assert caught.value.part == 3
    with pytest.raises(PartError, match=r"^ZeroDivisionError: by nothing$"):
        list(cluster.map(failing, [6]))


def test_a_worker_that_dies_costs_its_part_only(cluster: RayWorkers, tmp_path: Path) -> None:
    found = list(cluster.map(Deadly(tmp_path, 4, 1), range(10)))
    assert found == [(i, i + 1) for i in range(10)]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.usefixtures("cluster")
def test_a_part_over_which_all_die_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_workers, "RETRIES", 0)
    with (
        RayWorkers("local", 2) as workers,
        pytest.raises(PartError) as caught,
    ):
        list(workers.map(Deadly(tmp_path, 1, 10**6), range(3)))
    assert caught.value.part == 1
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("count", [0, 3])
def test_workers_that_there_are_not_are_refused(cluster: RayWorkers, count: int) -> None:
    """In a process that is in a cluster already, workers are of that one."""
    with pytest.raises(InputError, match=f"workers={count}; expected"):
        RayWorkers("local", count)


def test_a_cluster_that_is_not_there_is_one_line() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(InputError, match="expected the address of a cluster that runs") as refused:
        ray_workers._start(ray, address, None)
    assert str(refused.value).startswith(f"ray '{address}': ConnectionRefusedError: ")
    assert "\n" not in str(refused.value)


def test_workers_encode_fit_and_code(
    cluster: RayWorkers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`--ray` of add, sync and reduce: workers compute the parts, and the index is the same."""
    slimdex, on_ray = Runner(capsys), ("--ray", "local", "--workers", "2")
    computed, mapped = list[str](), RayWorkers.map

    def told(self: RayWorkers, function: Any, parts: Any) -> Any:
        computed.append(getattr(function, "__name__", type(function).__name__))
        return mapped(self, function, parts)

    monkeypatch.setattr(RayWorkers, "map", told)
    monkeypatch.chdir(tmp_path)
    more = [{"id": f"r{i}", "text": f"rain fell on mat {i}"} for i in range(40)]
    for name in ("here", "pets"):
        built(tmp_path, PETS, name)
    reduced = "--kind sq8 --k 2 --gamma 0.5"
    for line in ("add {} more.jsonl", "sync {} more.jsonl", f"reduce {{}} {reduced}"):
        rows = more if line.startswith("add") else [*more[1:], {"id": "r0", "text": "the dog sat"}]
        write("more.jsonl", rows)
        computed.clear()
        assert slimdex(line.format("here.index")).code == 0
        assert computed == []
        assert slimdex(line.format("pets.index"), *on_ray).code == 0
        assert ("Encoding" in computed) is ("more" in line)
        assert computed
    theirs, ours = (
        slimdex.found(f"{name}.index", "the cat on the mat", "-n", "50")
        for name in ("here", "pets")
    )
    assert [hit["id"] for hit in ours] == [hit["id"] for hit in theirs]
    scores = [[hit["score"] for hit in hits] for hits in (ours, theirs)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


def kill_workers(builder: subprocess.Popen[bytes], random: Random) -> None:
    """Kill workers at random times while the builder runs."""
    killed = 0
    while killed < WORKERS_KILLED and builder.poll() is None:
        time.sleep(random.uniform(0.05, 0.5))
        with suppress(psutil.NoSuchProcess):
            below = psutil.Process().children(recursive=True)
            if workers := [each for each in below if each.name().startswith(WORKER)]:
                random.choice(workers).send_signal(signal.SIGKILL)
                killed += 1
    assert killed == WORKERS_KILLED


@sweep
def test_a_build_ends_as_if_nobody_had_been_killed(
    cluster: RayWorkers,
    tmp_path: Path,
    docstrings: list[Document],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, path, log = tmp_path / "d.jsonl", tmp_path / "killed", tmp_path / "log"
    lines = [
        {"id": f"{i}-{d.id}", "text": d.text} for i in range(COPIES) for d in docstrings[:TEXTS]
    ]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = (str(path), str(source), ray.get_runtime_context().gcs_address)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    random, notes = Random(CHANCE.seed), list[str]()
    for _ in range(BUILDERS_KILLED):
        with (
            log.open("a") as out,
            subprocess.Popen(
                [sys.executable, "-c", BUILD, *words], stdout=out, stderr=out, env=environment
            ) as process,
        ):
            kill_workers(process, random)
            while process.poll() is None and not committed_rows(path):
                time.sleep(0.01)
            assert process.poll() is None, log.read_text()
            process.kill()
    monkeypatch.setattr(encoding, "WINDOW_TEXTS", 16)
    with listening(note=notes.append):
        for where, workers in ((path, cluster), (tmp_path / "whole", IN_THIS_PROCESS)):
            sources = Sources.open([str(source)])
            made, _ = build(where, sources, ReadingEncoder, SETTINGS, workers=workers)
            made.close()
    assert "resumed after" in "".join(notes)
    assert verify(path) == []
    assert_same_answers(tmp_path / "whole", path, [line["text"] for line in lines[::50]])


def committed_rows(path: Path) -> int:
    """Rows of an index; 0 before it is there."""
    return Manifest.read(path).state.rows if is_index(path) else 0


def assert_same_answers(one: Path, other: Path, queries: list[str]) -> None:
    """The same documents in order, the same bytes of vectors, and the same hits for queries."""
    ours, theirs = (next(path.glob("vectors-*")).read_bytes() for path in (one, other))
    assert ours == theirs
    answers = list[tuple[list[Document], list[list[tuple[str, float]]]]]()
    for path in (one, other):
        with Collection.open(path, ReadingEncoder()) as collection:
            found = collection.search_many(queries, limit=20)
            hits = [[(hit.id, round(hit.score, 5)) for hit in hits] for hits in found]
            answers.append(([*collection], hits))
    assert answers[0] == answers[1]
