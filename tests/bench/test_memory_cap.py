"""Limits by real control groups, where this process may create them."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import pytest

from slimdex.bench import machine
from slimdex.bench.engines.processes import Subprocess, WorkerError
from slimdex.bench.machine import MemoryGroup, join
from slimdex.bench.runner import possible_cap
from slimdex.errors import InputError
from tests.bench.test_cli import bench

SIZE, CAP = 96 << 20, 32 << 20
PAGES = SIZE // mmap.PAGESIZE


class Holder:
    """Holds private bytes or pages of a file."""

    def __init__(self, group: Path, file: Path | None) -> None:
        join(group)
        self._data: bytearray | mmap.mmap = bytearray(b"1" * SIZE)
        if file is not None:
            file.write_bytes(self._data)
            with file.open("rb") as opened:
                self._data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)

    def pages(self) -> int:
        """Read all pages; return their number."""
        return sum(self._data[start] == ord("1") for start in range(0, SIZE, mmap.PAGESIZE))

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
