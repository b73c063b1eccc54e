from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from slimdex.bench.engines.remote_object import Subprocess, WorkerError
from slimdex.bench.memory_limit import check_groups, limited
from slimdex.indexes.errors import InputError

MEGABYTE = 1_000_000


class Hoarder:
    """Takes memory and keeps it."""

    def __init__(self) -> None:
        self._kept = list[np.ndarray[tuple[int], np.dtype[np.uint8]]]()

    def take(self, size: int) -> int:
        self._kept.append(np.ones(size, dtype=np.uint8))
        return sum(map(len, self._kept))


def test_where_there_are_no_groups_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no control groups of version 2; expected them"):
        check_groups(tmp_path)
    (tmp_path / "cgroup.subtree_control").write_text("cpu pids\n")
    with pytest.raises(InputError, match="has no memory; expected the memory controller"):
        check_groups(tmp_path)
    with pytest.raises(InputError, match="has no memory"), limited(1, MEGABYTE, tmp_path):
        raise AssertionError
    assert [path.name for path in tmp_path.iterdir()] == ["cgroup.subtree_control"]


@pytest.mark.slow
def test_a_process_gets_no_more_than_its_limit() -> None:
    try:
        check_groups()
    except InputError as error:
        pytest.skip(f"memory can't be limited here: {error}")
    with ExitStack() as stack:
        process = Subprocess(Hoarder)
        stack.enter_context(limited(process.number, 400 * MEGABYTE))
        stack.enter_context(process)
        assert process.remote.take(10 * MEGABYTE) == 10 * MEGABYTE
        with pytest.raises(WorkerError, match="take: the process ended with code -9"):
            process.remote.take(600 * MEGABYTE)
