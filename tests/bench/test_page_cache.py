"""Pages of real files, on whatever file system the tests have; memory is told by the system."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.page_cache import PAGE, bytes_read, cached_bytes, check_system, drop
from slimdex.indexes.errors import InputError

PAGES = 64


@pytest.fixture
def file(tmp_path: Path, rng: np.random.Generator) -> Path:
    """A file on a disk, of many pages and a part of one."""
    path = tmp_path / "numbers"
    path.write_bytes(rng.bytes(PAGES * PAGE + 100))
    try:
        check_system()
        drop([path])
    except InputError as error:
        pytest.skip(f"nothing is dropped here: {error}")
    return path


def test_what_is_read_is_in_memory_until_it_is_dropped(file: Path) -> None:
    assert cached_bytes(file) == 0
    before = bytes_read()
    content = file.read_bytes()
    assert cached_bytes(file) == len(content) == PAGES * PAGE + 100
    assert bytes_read() - before >= len(content)
    again = bytes_read()
    assert file.read_bytes() == content
    assert bytes_read() == again
    drop([file])
    assert cached_bytes(file) == 0


def test_a_map_is_dropped_and_reads_again(file: Path) -> None:
    mapped = np.memmap(file, np.uint8, "r")
    before = mapped.copy()
    assert cached_bytes(file) == file.stat().st_size
    drop([file])
    assert cached_bytes(file) == 0
    read = bytes_read()
    assert mapped[5 * PAGE] == before[5 * PAGE]
    assert bytes_read() - read >= PAGE
    assert 0 < cached_bytes(file) <= file.stat().st_size
    np.testing.assert_array_equal(mapped, before)


def test_what_was_just_written_is_kept(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(b"new")
    drop([file])
    assert cached_bytes(file) == 0
    assert file.read_bytes()[:3] == b"new"


def test_pages_that_stay_are_refused(file: Path) -> None:
    mapped = np.memmap(file, np.uint8, "r+")  # might have been written to: not ours to forget
    size = len(mapped)
    mapped.max()
    with pytest.raises(InputError, match=f"{size:,} of {size:,} bytes stay in memory; expected a"):
        drop([file])


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="no file system in memory")
def test_a_file_system_in_memory_is_refused(rng: np.random.Generator) -> None:
    path = Path("/dev/shm") / f"slimdex-test-{os.getpid()}"
    path.write_bytes(rng.bytes(2 * PAGE))
    try:
        with pytest.raises(InputError, match="stay in memory; expected a file on a disk"):
            drop([path])
    finally:
        path.unlink()


def test_an_empty_file_has_no_pages(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    assert cached_bytes(path) == 0
