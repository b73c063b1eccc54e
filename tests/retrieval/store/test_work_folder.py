"""Work folders: locked by their process, and removed once it has ended."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from slimdex.errors import InUseError
from slimdex.retrieval.store.work_folder import remove_left_work, work_folder


def test_those_of_ended_processes_are_removed(tmp_path: Path) -> None:
    left, other = tmp_path / "work-0123abcd", tmp_path / "work"
    for folder in (left, other):
        folder.mkdir()
        (folder / "codes").touch()
    with work_folder(tmp_path) as work:
        remove_left_work(tmp_path)
        assert {*tmp_path.iterdir()} == {work, other}
    assert [*tmp_path.iterdir()] == [other]


def test_a_work_folder_is_never_unlocked(tmp_path: Path) -> None:
    ended = Event()

    def keep_removing() -> None:
        while not ended.is_set():
            remove_left_work(tmp_path)

    remover = Thread(target=keep_removing)
    remover.start()
    try:
        made = 0
        for _ in range(300):
            # Folders are removed as fast as they are made: after some attempts that is reported.
            with suppress(InUseError), work_folder(tmp_path) as work:
                for name in ("codes", "norms"):
                    (work / name).touch()
                assert (work / "codes").exists()
                made += 1
    finally:
        ended.set()
        remover.join()
    assert made
