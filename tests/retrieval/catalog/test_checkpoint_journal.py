"""A checkpoint that was cut short: the bytes before it, after it, and those in between."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

from slimdex.indexes.errors import CorruptError, StatementError
from slimdex.retrieval.catalog.checkpoint_journal import HEADERS, Journal
from slimdex.retrieval.catalog.database import Database

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

    def leave(
        self, catalog: bytes, *, log: bytes | None = None, journal: bytes | None = None
    ) -> None:
        """What a crash left."""
        self.path.write_bytes(catalog)
        self.log_path.write_bytes(self.log if log is None else log)
        Journal(self.path).path.write_bytes(self.journal if journal is None else journal)

    @property
    def log_path(self) -> Path:
        return Journal(self.path).log

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
        journal, file = Journal(path), os.open(path, os.O_RDONLY)
        journal.save(file, [block for (block,) in metadata], BLOCK)
        connection.execute("CHECKPOINT")
    os.close(file)
    made = Checkpoint(path, before, path.read_bytes(), log, journal.path.read_bytes())
    assert len(made.headers) == len(made.in_place()) == 1
    return made


def found(path: Path, read_only: bool) -> list[tuple[int]]:
    database = Database(path)
    try:
        with nullcontext() if read_only else database.writing():
            return database.fetch("SELECT n FROM t ORDER BY n")
    finally:
        database.close()


readers_and_writers = pytest.mark.parametrize("read_only", [True, False])


@readers_and_writers
@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 1.0])
def test_a_checkpoint_cut_in_a_block_is_undone(
    checkpoint: Checkpoint, share: float, read_only: bool
) -> None:
    (at,) = checkpoint.in_place()
    cut = at + int(share * BLOCK)
    torn = checkpoint.before[:at] + checkpoint.after[at:cut] + checkpoint.before[cut:]
    checkpoint.leave(torn)
    assert found(checkpoint.path, read_only) == BOTH
    # Readers can't end the checkpoint.
    assert Journal(checkpoint.path).path.exists() == read_only
    checkpoint.leave(torn)
    Journal(checkpoint.path).path.unlink()
    if share == 0.01:  # the journal is what makes the difference
        with pytest.raises(CorruptError, match="checksum"):
            found(checkpoint.path, read_only)


@readers_and_writers
@pytest.mark.parametrize("count", [0, 4, 8, 20])
def test_a_checkpoint_cut_in_a_header_is_undone(
    checkpoint: Checkpoint, count: int, read_only: bool
) -> None:
    (place,) = checkpoint.headers
    new = checkpoint.after[place][:count] + checkpoint.before[place][count:]
    file = checkpoint.before[: place.start] + new + checkpoint.before[place.stop : HEADERS]
    checkpoint.leave(file + checkpoint.after[HEADERS:])
    assert found(checkpoint.path, read_only) == BOTH
    # Who only reads can't end the checkpoint.
    assert Journal(checkpoint.path).path.exists() == read_only


@readers_and_writers
def test_done_but_for_removing_the_journal(checkpoint: Checkpoint, read_only: bool) -> None:
    checkpoint.leave(checkpoint.after)
    checkpoint.log_path.unlink()
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
    checkpoint.leave(bytes(damaged))
    checkpoint.log_path.unlink()
    with pytest.raises(CorruptError, match="checksum"):
        found(checkpoint.path, read_only)
    assert checkpoint.path.read_bytes() == damaged


@pytest.mark.parametrize("length", [0, 1, 32, 40, 5000, -1])
def test_a_journal_that_is_damaged(checkpoint: Checkpoint, length: int) -> None:
    checkpoint.leave(checkpoint.before, journal=checkpoint.journal[:length])
    for read_only in (True, False):
        with pytest.raises(CorruptError, match=r"c\.duckdb\.journal: damaged; expected what"):
            found(checkpoint.path, read_only)
    checkpoint.log_path.unlink()  # without a log it does not matter
    assert found(checkpoint.path, read_only=False) == [(1,)]
    assert not Journal(checkpoint.path).path.exists()


@readers_and_writers
def test_a_log_that_was_not_committed(checkpoint: Checkpoint, read_only: bool) -> None:
    """Without a journal, or with one of an earlier log."""
    checkpoint.leave(checkpoint.before)
    Journal(checkpoint.path).path.unlink()
    assert found(checkpoint.path, read_only) == [(1,)]
    checkpoint.leave(checkpoint.after, log=b"torn" + bytes(99))
    assert found(checkpoint.path, read_only) == BOTH
    assert not checkpoint.log_path.exists()


@readers_and_writers
@pytest.mark.parametrize("cut", [(0, 1), (7, 9), (-1, None), (0, None)])
def test_a_committed_log_that_is_damaged(
    checkpoint: Checkpoint, cut: tuple[int, int | None], read_only: bool
) -> None:
    log = bytearray(checkpoint.log)
    del log[slice(*cut)]
    checkpoint.leave(checkpoint.before, log=bytes(log))
    with pytest.raises(CorruptError, match=r"c\.duckdb\.wal: damaged; expected \d+ bytes or more"):
        found(checkpoint.path, read_only)
    checkpoint.log_path.unlink()
    with pytest.raises(CorruptError, match=r"c\.duckdb\.wal: damaged; expected \d+ bytes or more"):
        found(checkpoint.path, read_only)


@readers_and_writers
def test_the_torn_end_of_a_log_is_removed(checkpoint: Checkpoint, read_only: bool) -> None:
    """Its commit was never acknowledged."""
    for end in (checkpoint.log[-40:-20], checkpoint.log[-40:] + bytes(99), b"\xff" * 5000):
        checkpoint.leave(checkpoint.before, log=checkpoint.log + end)
        assert found(checkpoint.path, read_only) == BOTH


def test_a_checkpoint_that_failed_keeps_what_was_saved(checkpoint: Checkpoint) -> None:
    (at,) = checkpoint.in_place()
    checkpoint.leave(checkpoint.before)
    journal, file = Journal(checkpoint.path), os.open(checkpoint.path, os.O_RDWR)
    journal.save(file, [0], BLOCK)
    saved = journal.path.read_bytes()
    os.pwrite(file, b"damaged", at + 99)
    journal.save(file, [0], BLOCK)
    assert journal.path.read_bytes() == saved
    os.pwrite(file, checkpoint.after, 0)  # the next one did not fail
    journal.save(file, [0], BLOCK)
    assert journal.path.read_bytes() != saved
    os.close(file)


def test_a_journal_that_could_not_be_made_durable_is_none(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    checkpoint.leave(checkpoint.before)
    journal, file = Journal(checkpoint.path), os.open(checkpoint.path, os.O_RDONLY)
    with monkeypatch.context() as patch:
        patch.setattr("slimdex.retrieval.atomic_files.sync", fails)
        with pytest.raises(OSError, match="Input/output error"):
            journal.save(file, [0], BLOCK)
    assert not journal.is_of_log
    journal.save(file, [0], BLOCK)
    assert journal.is_of_log
    os.close(file)


@pytest.mark.parametrize(
    "wrong",
    [
        {"places": np.array([-1])},
        {"places": np.array([1 << 62])},
        {"places": np.array([0.5])},
        {"places": np.zeros((2, 3), np.complex64)},
        {"places": np.array(0)},
        {"blocks": np.array(1.0)},
        {"headers": np.zeros(3, np.uint8)},
        {"log_bytes": np.array([1, 2])},
        {"log_bytes": np.array([-5])},
    ],
)
def test_an_untrusted_journal_does_no_harm(
    checkpoint: Checkpoint, wrong: dict[str, NDArray[Any]]
) -> None:
    true = {
        "headers": np.frombuffer(checkpoint.before[:HEADERS], np.uint8),
        "places": np.array([HEADERS]),
        "blocks": np.frombuffer(checkpoint.before[HEADERS : HEADERS + BLOCK], np.uint8),
        "log": np.frombuffer(hashlib.sha256(checkpoint.log).digest(), np.uint8),
        "log_bytes": np.array([len(checkpoint.log)]),
    }
    for made in (save(true | wrong), save({"log": true["log"]}), b"no safetensors"):
        checkpoint.leave(checkpoint.before, journal=hashlib.sha256(made).digest() + made)
        for read_only in (True, False):
            with suppress(CorruptError):
                assert found(checkpoint.path, read_only) == BOTH


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_commit_without_its_journal_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fails(*_: object) -> None:
        raise error

    def insert(n: int) -> None:
        with database.transaction():
            database.execute("INSERT INTO t VALUES (?)", [n])

    database = Database(tmp_path / "c.duckdb", creates=True)
    with database.writing():
        with database.transaction():
            database.execute("CREATE TABLE t AS SELECT 1 AS n")
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "save", fails)
            with pytest.raises(type(error)):
                insert(3)
        assert database.fetch("SELECT n FROM t ORDER BY n") == [(1,)]
        insert(2)
        assert database.fetch("SELECT n FROM t ORDER BY n") == BOTH
    database.close()
    assert found(database.path, read_only=True) == BOTH


def test_duckdb_s_lock_stays_after_a_commit(tmp_path: Path) -> None:
    """Closing any descriptor of a file releases all locks of the process on it."""
    database = Database(tmp_path / "c.duckdb", creates=True)
    stranger = f"import duckdb; duckdb.connect({str(database.path)!r})"
    with database.writing():
        for sql in ("CREATE TABLE t AS SELECT 1 AS n", "INSERT INTO t VALUES (2)"):
            with database.transaction():
                database.execute(sql)
        done = subprocess.run([sys.executable, "-c", stranger], capture_output=True, text=True)
        assert "Could not set lock" in done.stderr
    subprocess.run([sys.executable, "-c", stranger], check=True)


def test_concurrent_readers_recover_once_after_a_crash(checkpoint: Checkpoint) -> None:
    (at,) = checkpoint.in_place()
    torn = checkpoint.before[: at + 2000] + bytes(100) + checkpoint.before[at + 2100 :]
    reader = f"""if True:
        from pathlib import Path
        from slimdex.retrieval.catalog.database import Database
        input()
        database = Database(Path({str(checkpoint.path)!r}))
        print(database.fetch("SELECT n FROM t ORDER BY n"))
        database.close()
    """
    checkpoint.leave(torn)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", reader],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(4)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate()[0] for process in started] == [f"{BOTH}\n"] * 4


def test_a_value_quoted_in_an_error_is_not_damage(tmp_path: Path) -> None:
    database = Database(tmp_path / "checksums Corrupt.duckdb", creates=True)
    with database.writing(), database.transaction():
        database.execute("CREATE TABLE t AS SELECT 'Corrupt database file: checksum' AS n")
    statement = "SELECT n::INTEGER FROM t"
    with pytest.raises(StatementError, match="Could not convert string 'Corrupt"):
        database.fetch(statement)
    with pytest.raises(StatementError), database.writing(), database.transaction():
        database.execute(statement)
    with pytest.raises(StatementError), database.writing():
        database.execute(statement)
    assert len(database.fetch("SELECT n FROM t")) == 1
    database.close()


def test_readers_beside_a_journal_that_is_left(checkpoint: Checkpoint) -> None:
    checkpoint.leave(checkpoint.after)
    checkpoint.log_path.unlink()
    first = Database(checkpoint.path)
    with first.reading():
        Journal(checkpoint.path).path.write_bytes(checkpoint.journal)
        assert found(checkpoint.path, read_only=True) == BOTH
    first.close()
