"""Work folders: removed at the end or, if their process was killed, by a later commit."""

from __future__ import annotations

import os
from pathlib import Path
from time import time

from slimdex.retrieval.store.work_folder import (
    LEFT_SECONDS,
    NEW_SECONDS,
    remove_left_work,
    work_folder,
)


def test_those_without_a_lock_are_removed_after_a_day(tmp_path: Path) -> None:
    left, new, other = tmp_path / "work-0123abcd", tmp_path / "work-4567cdef", tmp_path / "work"
    for folder in (left, new, other):
        folder.mkdir()
        (folder / "codes").touch()
    a_day_ago = time() - LEFT_SECONDS - 1
    for folder in (left, other):
        os.utime(folder, (a_day_ago, a_day_ago))
    with work_folder(tmp_path) as work:
        remove_left_work(tmp_path)
        assert {*tmp_path.iterdir()} == {work, new, other}
    assert {*tmp_path.iterdir()} == {new, other}


def test_those_of_killed_processes_are_removed_after_a_minute(tmp_path: Path) -> None:
    killed, new = tmp_path / "work-0123abcd", tmp_path / "work-4567cdef"
    for folder in (killed, new):
        folder.mkdir()
        (folder / "owner.lock").touch()
    with work_folder(tmp_path) as work:
        for folder in (killed, work):
            os.utime(folder, (time() - NEW_SECONDS - 1,) * 2)
        remove_left_work(tmp_path)
        assert {*tmp_path.iterdir()} == {work, new}
