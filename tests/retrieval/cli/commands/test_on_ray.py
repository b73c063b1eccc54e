"""`--ray` of add, sync and reduce: workers compute the parts, and the index is the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from slimdex.retrieval.collection import Collection

from ..running import Runner, write

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


def facts_of(name: str) -> tuple[list[str], Any]:
    """The ids of an index, and its documents' vectors as the index has them."""
    with Collection.open(name) as collection:
        core = collection
        vectors = core.state.vector_file(core.path, core.state.rows)
        ids = [document.id for document in collection]
        return ids, vectors.take(np.arange(len(vectors)))


def test_workers_encode_what_is_added_and_synced(pets: Runner, computed: list[str]) -> None:
    shutil.copytree("pets", "here")
    write("more.jsonl", MORE)
    assert pets("add", "here", "more.jsonl").code == 0
    assert computed == []
    assert pets("add", "pets", "more.jsonl", *RAY).code == 0
    assert "Encoding" in computed
    for name in ("here", "pets"):
        write("more.jsonl", [*MORE[1:], {"id": "r0", "text": "the dog sat"}])
        computed.clear()
        ray = RAY if name == "pets" else ()
        report = pets("sync", name, "more.jsonl", *ray, "--json").json
        assert report["encoded"] == 1
        assert ("Encoding" in computed) == bool(ray)
    (ids, ours), (others, theirs) = facts_of("pets"), facts_of("here")
    assert ids == others
    np.testing.assert_allclose(ours, theirs, rtol=1e-2, atol=1e-3)


def test_workers_reduce(pets: Runner, computed: list[str]) -> None:
    settings = ("--kind", "sq8", "--k", "2", "--gamma", "0.5")
    shutil.copytree("pets", "here")
    for name, ray in (("here", ()), ("pets", RAY)):
        assert pets("reduce", name, *settings, *ray).code == 0
        assert bool(computed) == bool(ray)
    shown = [pets.found(name, "the cat on the roof") for name in ("here", "pets")]
    assert [hit["id"] for hit in shown[0]] == [hit["id"] for hit in shown[1]]
