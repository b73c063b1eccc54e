"""kill -9 at every durable step of a build: what was encoded is never lost.

Kills of the other changes, below Python and at random, are in `test_faults.py`.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slimdex.indexes.vector_file import STORED
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.collection.repair import verify
from tests.chance import CHANCE, sweep
from tests.encoders import WordEncoder

from . import crash_child

QUERIES = ["word3 text", "other40", "word17"]
TOO_LONG = 600
"""Seconds, for a child that hangs: no measure of a slow machine's work."""
Answers = list[list[tuple[str, float]]]


def answers(path: Path) -> Answers:
    with Collection.open(path, WordEncoder()) as collection:
        if not len(collection):
            return []
        found = collection.search_many(QUERIES, limit=60)
    return [[(hit.id, round(hit.score, 4)) for hit in hits] for hits in found]


def attempt(path: Path, stored: str, kill_at: int) -> int | None:
    """The number of steps if the build came to its end, None if it was killed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.retrieval.crashes.crash_child"])
    here, there = context.Pipe(duplex=False)
    words = (path, stored, kill_at, there)
    child = context.Process(target=crash_child.run, args=words, daemon=True)
    child.start()
    there.close()
    child.join(TOO_LONG)
    assert child.exitcode in (0, -9)
    return int(here.recv()) if child.exitcode == 0 else None


@sweep
@pytest.mark.parametrize("stored", STORED)
def test_a_build_killed_at_every_step_goes_on(tmp_path: Path, stored: str) -> None:
    whole = tmp_path / "whole"
    steps = attempt(whole, stored, kill_at=0)
    assert steps is not None
    assert steps > 30
    expected = answers(whole)

    def kept_after(kill_at: int) -> int:
        path = tmp_path / str(kill_at)
        assert attempt(path, stored, kill_at) is None
        if not path.exists():  # it is there with a whole catalog, or not at all
            crash_child.build(path, stored)
            assert answers(path) == expected
            return 0
        encoder = WordEncoder()
        with Collection.open(path, encoder) as collection:
            state = collection._state
            assert state.stored == stored
            if state.unfinished:
                assert len(collection) == 0
                collection._resume()
            elif not state.rows:
                collection.add(crash_child.BASE)
        assert len(encoder.encoded) == len(crash_child.BASE) - state.encoded
        assert verify(path) == []
        assert answers(path) == expected, f"killed at step {kill_at}"
        return state.encoded

    with ThreadPoolExecutor(4) as pool:
        kept = list(pool.map(kept_after, CHANCE.sample(range(1, steps + 1), 24)))
    assert set(kept) == {0, 16, 32, 40}
    assert kept == sorted(kept), "what was encoded is never lost"
