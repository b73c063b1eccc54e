"""Ray: real processes compute the parts, in whatever order, and some of them are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.workers import PartError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from tests.encoders import ReadingEncoder

pytest.importorskip("ray", reason="the extra cluster is not installed")
from slimdex.retrieval.cluster.ray_workers import RETRIES, RayWorkers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayWorkers]:
    with RayWorkers("local", 2) as workers:
        yield workers


def test_parts_come_back_in_their_order_from_other_processes(cluster: RayWorkers) -> None:
    def slower_first(part: int) -> tuple[int, int]:
        import time

        time.sleep(0.3 if part % 5 == 0 else 0)
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


@dataclass(frozen=True)
class Deadly:
    """Kills its process over a part so many times, as files in a folder count."""

    folder: Path
    part: int
    times: int

    def __call__(self, part: int) -> int:
        if part == self.part:
            died = len(list(self.folder.iterdir()))
            if died < self.times:
                (self.folder / str(died)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return part + 1


def test_a_worker_that_dies_costs_its_part_only(cluster: RayWorkers, tmp_path: Path) -> None:
    found = list(cluster.map(Deadly(tmp_path, 4, 2), range(10)))
    assert found == [(i, i + 1) for i in range(10)]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_part_over_which_all_die_is_given_up(cluster: RayWorkers, tmp_path: Path) -> None:
    with pytest.raises(PartError, match=f"{RETRIES + 1} processes died on it") as caught:
        list(cluster.map(Deadly(tmp_path, 1, 10**6), range(3)))
    assert caught.value.part == 1
    assert len(list(tmp_path.iterdir())) == RETRIES + 1


def assert_same_files(one: Path, other: Path) -> None:
    """The bytes of all files but norms, whose last bit depends on how many threads multiply."""
    ours, theirs = (
        {
            p.name: p.read_bytes()
            for p in path.iterdir()
            if p.is_file() and not p.name.startswith(("segment", "slimdex", "writer", "before"))
        }
        for path in (one, other)
    )
    assert ours.keys() == theirs.keys()
    different = [name for name in ours if ours[name] != theirs[name]]
    assert [name for name in different if not name.startswith("norms")] == []
    for name in different:
        a, b = (np.frombuffer(files[name], np.float32) for files in (ours, theirs))
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_an_index_is_the_same_whoever_built_it(
    cluster: RayWorkers,
    tmp_path: Path,
    docstrings: list[Document],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("slimdex.retrieval.ingest.encoding.WINDOW", 64)
    for name in ("here", "cluster"):
        with Collection.create(tmp_path / name, ReadingEncoder(), Settings(24)) as collection:
            if name == "cluster":
                collection.commit_log.workers = cluster
            collection.add(docstrings)
    assert_same_files(tmp_path / "here", tmp_path / "cluster")


@pytest.mark.parametrize("count", [0, 3])
def test_workers_that_there_are_not_are_refused(cluster: RayWorkers, count: int) -> None:
    """In a process that is in a cluster already, workers are of that one."""
    with pytest.raises(InputError, match=f"workers={count}; expected"):
        RayWorkers("local", count)
