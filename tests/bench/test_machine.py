"""Memory of a process, by kind of mapping."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import psutil
import pytest

from slimdex.bench.machine import Resident, memory_parts

SIZE = 1 << 22


@pytest.mark.skipif(sys.platform != "linux", reason="other systems don't tell")
def test_parts_of_memory_are_all_of_it(tmp_path: Path) -> None:
    place = tmp_path / "notes.index"
    place.mkdir()
    path = place / "vectors"
    path.write_bytes(b"1" * SIZE)
    before = memory_parts(psutil.Process(), place)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        assert bytes(data).count(b"1") == SIZE
        written = bytearray(b"1" * SIZE)
        found = memory_parts(psutil.Process(), place)
    assert "the index" not in before
    assert found["the index"][0] == SIZE  # private while the system has yet to write them
    assert found["heap and stacks"][1] - before["heap and stacks"][1] >= len(written)
    resident = psutil.Process().memory_info().rss
    assert sum(size for size, _ in found.values()) == pytest.approx(resident, abs=4 * SIZE)
    assert all(private <= size for size, private in found.values())


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
    assert read.own == pytest.approx(0, abs=SIZE // 4)
    assert both.own == pytest.approx(SIZE, abs=SIZE // 4)
    assert without_input.own == pytest.approx(both.own, abs=SIZE // 4)
    assert both.files - without_input.files == SIZE
