"""kill -9 at every durable step of a build: what was encoded is never lost.

Kills of the other changes, below Python and at random, are in `test_faults.py`.
"""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.vector_file import STORED
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.operations.repair import verify
from tests import forked
from tests.chance import CHANCE, sweep
from tests.encoders import ReadingEncoder, WordEncoder

from . import crash_child

QUERIES = ["word3 text", "other40", "word17"]
TOO_LONG = 600
"""Seconds, for a child that hangs: no measure of a slow machine's work."""
Answers = list[list[tuple[str, float]]]


SMALL = Settings(k=8, kind="flat", candidates=5)


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Additions are prepared as if they were large, as in the processes that are killed."""
    monkeypatch.setattr("slimdex.retrieval.ingest.preparing.FEW", 0)


def answers(path: Path) -> Answers:
    with Collection.open(path, WordEncoder()) as collection:
        if not len(collection):
            return []
        found = collection.search_many(QUERIES, limit=60)
    return [[(hit.id, round(hit.score, 4)) for hit in hits] for hits in found]


def attempt(
    path: Path,
    stored: str,
    kill_at: int,
    change: Callable[[Path, str], None] = crash_child.build,
) -> int | None:
    """The number of steps if the change came to its end, None if it was killed."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = forked.process(crash_child.run, path, stored, kill_at, there, change)
    there.close()
    code = forked.exit_code(child, TOO_LONG)
    assert code in (0, -9)
    return int(here.recv()) if code == 0 else None


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
            assert collection.state.stored == stored
            collection.add(crash_child.BASE)
        assert verify(path) == []
        assert answers(path) == expected, f"killed at step {kill_at}"
        return len(crash_child.BASE) - len(encoder.encoded)

    with ThreadPoolExecutor(4) as pool:
        kept = list(pool.map(kept_after, CHANCE.sample(range(1, steps + 1), 24)))
    assert set(kept) == {0, 16, 32, 40}
    assert kept == sorted(kept), "what was encoded is never lost"


@sweep
def test_a_build_of_passages_killed_at_every_step_goes_on(tmp_path: Path) -> None:
    """A document is there with all of its passages, or none is, inside of which a window ends."""
    whole, encoder = tmp_path / "whole", ReadingEncoder()
    steps = attempt(whole, "fp16", 0, crash_child.build_long)
    assert steps is not None

    def seen(path: Path) -> list[tuple[str, int, float]]:
        with Collection.open(path, ReadingEncoder()) as collection:
            hits = collection.search("word3 text", 200, group_by="passage")
        return [(hit.id, hit.start, round(hit.score, 4)) for hit in hits]

    expected = seen(whole)
    rows = sum(max(len(d.text.split()) > encoder.max_length, 1) for d in crash_child.LONG)
    assert len(expected) > rows

    def kept_after(kill_at: int) -> int:
        path = tmp_path / str(kill_at)
        assert attempt(path, "fp16", kill_at, crash_child.build_long) is None
        if not path.exists():
            return 0
        encoder = ReadingEncoder()
        with Collection.open(path, encoder) as collection:
            rows = collection.state.rows
            assert rows in (0, len(expected))
            assert len(collection) == (40 if rows else 0)
            collection.add(crash_child.LONG)
        assert verify(path) == []
        assert sorted(seen(path)) == sorted(expected), f"killed at step {kill_at}"
        return len(expected) - len(encoder.encoded)

    with ThreadPoolExecutor(4) as pool:
        kept = list(pool.map(kept_after, CHANCE.sample(range(1, steps + 1), 24)))
    assert {0, 16, 32} < set(kept)
    assert kept == sorted(kept)


@sweep
def test_a_fit_after_an_addition_that_is_killed_costs_no_document(tmp_path: Path) -> None:
    """The index is as before, with the documents, or refitted: each is a commit of its own."""
    base = tmp_path / "base"
    with Collection.create(base, WordEncoder(8), SMALL) as collection:
        collection.add(crash_child.BASE)
    shutil.copytree(base, tmp_path / "whole")
    steps = attempt(tmp_path / "whole", "fp16", 0, crash_child.refit)
    assert steps is not None

    def seen_after(kill_at: int) -> tuple[int, int]:
        path = Path(shutil.copytree(base, tmp_path / str(kill_at)))
        assert attempt(path, "fp16", kill_at, crash_child.refit) is None
        with Collection.open(path, WordEncoder(8)) as collection:
            fit, count = collection.state.fit, len(collection)
            assert fit is not None
            found = collection.search_many("other3 text", limit=60)[0]
            assert len(found) == count
        assert verify(path) == []
        return count, int(fit["documents"])

    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(seen_after, CHANCE.sample(range(1, steps + 1), 24)))
    assert set(seen) == {(40, 40), (52, 40), (52, 52)}
    assert seen == sorted(seen), "what is committed stays"
