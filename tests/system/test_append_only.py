"""Append-only files: checksums of their blocks, and when their bytes are durable."""

from __future__ import annotations

import os
from contextvars import copy_context
from hashlib import sha256
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from slimdex.system.append_only import (
    BLOCK_BYTES,
    appending,
    digests_after_growth,
    sync,
    sync_all,
    sync_now,
    syncing_later,
)

MADE = b"0123456789"


@pytest.mark.parametrize("before", [0, 100, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 7])
@pytest.mark.parametrize("more", [0, 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 3])
def test_digests_of_an_extended_file(tmp_path: Path, before: int, more: int) -> None:
    data = np.random.default_rng(before + more).bytes(before + more)
    (tmp_path / "v").write_bytes(data)
    first = before // BLOCK_BYTES
    starts = range(first * BLOCK_BYTES, before + more, BLOCK_BYTES)
    expected = [data[first * BLOCK_BYTES : before], *(data[s : s + BLOCK_BYTES] for s in starts)]
    old, new = digests_after_growth(tmp_path / "v", before, before + more)
    assert [old, *new] == [sha256(part).hexdigest() for part in expected]


@pytest.mark.parametrize("others", [0, 1000])
def test_a_block_that_was_hashed_before_is_not_read_again(tmp_path: Path, others: int) -> None:
    """Damage in the meantime is still detected; bytes that others appended are read."""
    path, data = tmp_path / "v", np.random.default_rng(0).bytes(9000)
    path.write_bytes(data)
    _, (known,) = digests_after_growth(path, 0, 5000)
    if others:
        known = sha256(data[: 5000 + others]).hexdigest()
    path.write_bytes(b"?" + data[1:])  # damage
    digests = digests_after_growth(path, 5000 + others, 9000, known)
    assert digests == (known, [sha256(data).hexdigest()])


def test_a_kept_hash_of_another_block_is_not_used(tmp_path: Path) -> None:
    """A folder restored from a copy has other bytes under the same name."""
    path, data = tmp_path / "v", np.random.default_rng(0).bytes(9000)
    path.write_bytes(data)
    assert len(digests_after_growth(path, 0, 5000)[1]) == 1
    path.write_bytes(b"?" + data[1:])
    known = sha256(b"?" + data[1:5000]).hexdigest()
    _, (last,) = digests_after_growth(path, 5000, 9000, known)
    assert last == sha256(b"?" + data[1:]).hexdigest()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the inode of each file or folder that is synced."""
    real, inodes = os.fsync, list[int]()

    def fsync(descriptor: int) -> None:
        inodes.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return inodes


def test_what_is_appended_is_durable_at_once(tmp_path: Path, synced: list[int]) -> None:
    path = tmp_path / "a"
    with appending(path, 0) as file:
        file.write(MADE)
    assert synced == [path.stat().st_ino]
    with appending(path, 4) as file:
        file.write(b"x")
    sync(tmp_path)
    assert path.read_bytes() == b"0123x"
    assert synced == [path.stat().st_ino] * 2 + [tmp_path.stat().st_ino]


@pytest.mark.skipif(os.name == "nt", reason="Windows renames no open file: it does not wait")
def test_files_of_a_change_are_synced_together(tmp_path: Path, synced: list[int]) -> None:
    """Files that are renamed, and those of a thread in the same context, are included."""
    first, second, third = (tmp_path / name for name in "abc")

    def write_third() -> None:
        third.write_bytes(MADE)
        sync_all([third])

    with syncing_later():
        with appending(first, 0) as file:
            file.write(MADE)
        second.write_bytes(MADE)
        sync(second)
        second.rename(tmp_path / "renamed")
        thread = Thread(target=copy_context().run, args=[write_third])
        thread.start()
        thread.join()
        sync(tmp_path)
        assert not synced
        sync_now()
        inodes = [each.stat().st_ino for each in (first, tmp_path / "renamed", third, tmp_path)]
        assert sorted(synced) == sorted(inodes)
        sync(first)  # the manifest comes after the others
        assert synced[4:] == inodes[:1]


def test_a_change_that_fails_syncs_nothing(tmp_path: Path, synced: list[int]) -> None:
    def fail() -> None:
        with syncing_later():
            with appending(tmp_path / "a", 0) as file:
                file.write(MADE)
            raise OSError("full")

    files = Path("/proc/self/fd")
    before = len(os.listdir(files)) if files.exists() else 0
    with pytest.raises(OSError, match="full"):
        fail()
    assert os.name == "nt" or not synced
    assert before == (len(os.listdir(files)) if files.exists() else 0)
    sync_all([tmp_path / "a"])
    assert synced[-1:] == [(tmp_path / "a").stat().st_ino]
