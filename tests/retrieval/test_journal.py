"""A checkpoint that was cut short: the bytes before it, after it, and those in between."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pytest
from safetensors.numpy import save

from indexes.errors import CorruptError
from retrieval.database import Database
from retrieval.journal import HEADERS, Journal

BLOCK = 1 << 18
KEPT: dict[str, str | bool | int | float | list[str]] = {"checkpoint_threshold": "1TB"}
BOTH = [(1,), (2,)]


@dataclass(frozen=True)
class Checkpoint:
    """A DuckDB file with 1 in its table, to which a checkpoint adds 2 from the log."""

    path: Path
    before: bytes
    after: bytes
    log: bytes
    journal: bytes

    def leave(self, catalog: bytes, *, log: bool = True, journal: bytes | None = None) -> None:
        """What a crash left."""
        self.path.write_bytes(catalog)
        self._log.unlink(missing_ok=True)
        if log:
            self._log.write_bytes(self.log)
        Journal(self.path).path.write_bytes(self.journal if journal is None else journal)

    @property
    def _log(self) -> Path:
        return self.path.with_name(self.path.name + ".wal")

    @property
    def headers(self) -> list[slice]:
        """Where the new header is, of the two."""
        places = [slice(at, at + 4096) for at in (4096, 8192)]
        return [place for place in places if self.before[place] != self.after[place]]

    def in_place(self) -> list[int]:
        """Where it writes over blocks that are in use, and may be cut."""
        return [
            at
            for at in range(HEADERS, len(self.before), BLOCK)
            if any(self.before[at : at + BLOCK])
            and self.before[at : at + BLOCK] != self.after[at : at + BLOCK]
        ]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    path = tmp_path / "c.duckdb"
    with duckdb.connect(str(path), config=KEPT) as connection:
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute("CREATE TABLE t AS SELECT 1 AS n")
        connection.execute("CHECKPOINT")
        before = path.read_bytes()
        connection.execute("INSERT INTO t VALUES (2)")
        log = path.with_name("c.duckdb.wal").read_bytes()
        metadata = connection.execute("SELECT block_id FROM pragma_metadata_info()").fetchall()
        journal = Journal(path)
        journal.save([block for (block,) in metadata], BLOCK)
        connection.execute("CHECKPOINT")
    made = Checkpoint(path, before, path.read_bytes(), log, journal.path.read_bytes())
    assert len(made.headers) == len(made.in_place()) == 1
    return made


def found(path: Path, read_only: bool) -> list[tuple[int]]:
    database = Database(path, read_only=read_only)
    try:
        return database.fetch("SELECT n FROM t ORDER BY n")
    finally:
        database.close()


readers_and_writers = pytest.mark.parametrize("read_only", [True, False])


@readers_and_writers
@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 1.0])
def test_cut_in_the_middle_of_a_block(
    checkpoint: Checkpoint, share: float, read_only: bool
) -> None:
    (at,) = checkpoint.in_place()
    cut = at + int(share * BLOCK)
    torn = checkpoint.before[:at] + checkpoint.after[at:cut] + checkpoint.before[cut:]
    checkpoint.leave(torn)
    assert found(checkpoint.path, read_only) == BOTH
    assert not Journal(checkpoint.path).path.exists()
    checkpoint.leave(torn, journal=b"")
    if share == 0.01:  # the journal is what makes the difference
        with pytest.raises(CorruptError, match="checksum"):
            found(checkpoint.path, read_only)


@readers_and_writers
@pytest.mark.parametrize("count", [0, 4, 8, 60])
def test_cut_in_the_middle_of_a_header(checkpoint: Checkpoint, count: int, read_only: bool) -> None:
    (place,) = checkpoint.headers
    new = checkpoint.after[place][:count] + checkpoint.before[place][count:]
    file = checkpoint.before[: place.start] + new + checkpoint.before[place.stop : HEADERS]
    checkpoint.leave(file + checkpoint.after[HEADERS:])
    assert found(checkpoint.path, read_only) == BOTH
    assert not Journal(checkpoint.path).path.exists()


@readers_and_writers
def test_done_but_for_removing_the_journal(checkpoint: Checkpoint, read_only: bool) -> None:
    checkpoint.leave(checkpoint.after, log=False)
    assert found(checkpoint.path, read_only) == BOTH
    assert checkpoint.path.read_bytes() == checkpoint.after
    assert not Journal(checkpoint.path).path.exists()


@readers_and_writers
def test_nothing_older_is_shown_for_a_header_that_is_damaged_later(
    checkpoint: Checkpoint, read_only: bool
) -> None:
    (place,) = checkpoint.headers
    damaged = bytearray(checkpoint.after)
    damaged[place.start + 20] ^= 1
    checkpoint.leave(bytes(damaged), log=False)
    with pytest.raises(CorruptError, match="checksum"):
        found(checkpoint.path, read_only)
    assert checkpoint.path.read_bytes() == damaged


@pytest.mark.parametrize("length", [0, 1, 32, 40, 5000, -1])
def test_a_journal_that_was_cut_itself_is_ignored(checkpoint: Checkpoint, length: int) -> None:
    checkpoint.leave(checkpoint.before, journal=checkpoint.journal[:length])
    assert found(checkpoint.path, read_only=False) == BOTH


def test_a_failed_checkpoint_keeps_what_is_saved(checkpoint: Checkpoint) -> None:
    (at,) = checkpoint.in_place()
    checkpoint.leave(checkpoint.before[: at + 99] + b"\xff" + checkpoint.before[at + 100 :])
    journal = Journal(checkpoint.path)
    journal.save([0], BLOCK)
    assert journal.path.read_bytes() == checkpoint.journal
    checkpoint.path.write_bytes(checkpoint.after)  # the next one did not fail
    journal.save([0], BLOCK)
    assert journal.path.read_bytes() != checkpoint.journal


@pytest.mark.parametrize("place", [-BLOCK, 1, 1 << 62])
def test_a_strangers_journal_writes_nowhere_else(checkpoint: Checkpoint, place: int) -> None:
    body = save(
        {
            "headers": np.frombuffer(checkpoint.before[:HEADERS], np.uint8),
            "places": np.array([place]),
            "blocks": np.zeros((1, len(checkpoint.before)), np.uint8),
        }
    )
    for made in (body, save({"headers": np.zeros(3, np.uint8)}), b"no safetensors"):
        checkpoint.leave(checkpoint.before, log=False, journal=hashlib.sha256(made).digest() + made)
        assert found(checkpoint.path, read_only=True) == [(1,)]
        assert checkpoint.path.read_bytes() == checkpoint.before


def test_another_reader_leaves_the_journal_alone(checkpoint: Checkpoint) -> None:
    checkpoint.leave(checkpoint.after, log=False)
    journal = Journal(checkpoint.path)
    first = Database(checkpoint.path, read_only=True)
    journal.path.write_bytes(checkpoint.journal)
    assert found(checkpoint.path, read_only=True) == BOTH
    assert journal.path.exists()
    first.close()
