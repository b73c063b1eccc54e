"""`--ray` of add, sync and reduce: workers compute the parts, and the index is the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from .running import Runner, write

pytest.importorskip("ray", reason="the extra cluster is not installed")
from slimdex.retrieval.cluster.ray_workers import RayWorkers

pytestmark = pytest.mark.slow

RAY = ("--ray", "local", "--workers", "2")
MORE = [{"id": f"r{i}", "text": f"rain fell on roof {i}"} for i in range(40)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster that commands of this process join, so that each need not start its own."""
    with RayWorkers("local", 2):
        yield


@pytest.fixture
def computed(cluster: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the workers were asked to compute."""
    asked, mapped = list[str](), RayWorkers.map

    def told(self: RayWorkers, function: Callable[[Any], Any], parts: Iterable[Any]) -> Any:
        name = getattr(function, "__name__", type(function).__name__)
        for part in mapped(self, function, parts):
            asked.append(name)
            yield part

    monkeypatch.setattr(RayWorkers, "map", told)
    return asked


def test_workers_encode_fit_and_code(pets: Runner, computed: list[str]) -> None:
    shutil.copytree("pets", "here")
    reduced = "--kind sq8 --k 2 --gamma 0.5"
    for line in ("add {} more.jsonl", "sync {} more.jsonl", f"reduce {{}} {reduced}"):
        rows = MORE if line.startswith("add") else [*MORE[1:], {"id": "r0", "text": "the dog sat"}]
        write("more.jsonl", rows)
        computed.clear()
        assert pets(line.format("here")).code == 0
        assert computed == []
        assert pets(line.format("pets"), *RAY).code == 0
        assert ("Encoding" in computed) is ("more" in line)
        assert computed
    theirs, ours = (
        pets.found(name, "the cat on the roof", "-n", "50") for name in ("here", "pets")
    )
    assert [hit["id"] for hit in ours] == [hit["id"] for hit in theirs]
    scores = [[hit["score"] for hit in hits] for hits in (ours, theirs)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)
