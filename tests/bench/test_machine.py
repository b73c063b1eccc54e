"""Memory of a process by kind of mapping; limits by control groups, where these can be made."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slimdex.bench import machine
from slimdex.bench.engines.processes import Subprocess, WorkerError
from slimdex.bench.machine import MemoryGroup, Resident, join
from slimdex.bench.runner import possible_cap
from slimdex.errors import InputError
from tests.bench.test_commands import bench

SIZE = 1 << 22
HELD, CAP = 32 << 20, 16 << 20
"""Bytes that a process holds, and a limit."""
PAGES = HELD // mmap.PAGESIZE


@pytest.mark.skipif(sys.platform != "linux", reason="other systems don't tell")
def test_private_bytes_and_pages_of_files_are_apart_and_the_input_counts_as_neither(
    tmp_path: Path,
) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(b"1" * SIZE)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        before = Resident.now()
        assert data.find(b"0") == -1  # reads every page
        read = Resident.now().since(before)
        written = bytearray(b"1" * SIZE)
        both = Resident.now().since(before)
        without_input = Resident.now(path).since(before)
    assert len(written) == SIZE
    assert read.files == pytest.approx(SIZE, abs=SIZE // 4)
    assert read.private == pytest.approx(0, abs=SIZE // 4)
    assert both.private == pytest.approx(SIZE, abs=SIZE // 4)
    assert without_input.private == pytest.approx(both.private, abs=SIZE // 4)
    assert both.files - without_input.files == SIZE


class Holder:
    """Holds private bytes or pages of a file."""

    def __init__(self, group: Path, file: Path | None) -> None:
        join(group)
        self._data: bytearray | mmap.mmap = bytearray(b"1" * HELD)
        if file is not None:
            file.write_bytes(self._data)
            with file.open("rb") as opened:
                self._data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)

    def pages(self) -> int:
        """Read all pages; return their number."""
        return sum(self._data[start] == ord("1") for start in range(0, HELD, mmap.PAGESIZE))

    def copied(self) -> int:
        """Copy all bytes to private memory; return their number."""
        return len(bytes(self._data))


def limit_and_read(group: MemoryGroup, holder: Holder) -> None:
    """Set the limit, which raises, or read beyond it, which the system does not survive."""
    group.limit(CAP)
    holder.pages()


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    try:
        made = MemoryGroup()
    except InputError as error:
        pytest.skip(str(error))
    with made:
        yield made
    assert not made.folder.exists()


@pytest.mark.slow
def test_private_memory_above_the_cap_is_refused_or_ended(group: MemoryGroup) -> None:
    with Subprocess(Holder, group.folder, None) as process:
        assert process.remote.pages() == PAGES
        with pytest.raises(InputError, match=f"more than {CAP:,} bytes are in use|code -9"):
            limit_and_read(group, process.remote)


@pytest.mark.slow
def test_a_mapped_file_larger_than_the_cap_is_read(group: MemoryGroup, tmp_path: Path) -> None:
    with Subprocess(Holder, group.folder, tmp_path / "file") as process:
        assert process.remote.pages() == PAGES
        group.limit(CAP)
        assert process.remote.pages() == PAGES
        with pytest.raises(WorkerError):
            process.remote.copied()


def test_a_system_without_groups_leaves_the_cap_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "GROUPS", tmp_path / "none")
    assert possible_cap(40) is None
    assert capsys.readouterr().err.count("\n") == 1
    assert possible_cap(None) is None
    with pytest.raises(InputError, match="--memory-cap 0; expected 1 MB or more"):
        bench("peers", "--memory-cap", 0, folder=tmp_path)
