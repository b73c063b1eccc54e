"""A lock that many readers hold together, or one writer alone."""

from __future__ import annotations

import threading
import time

from slimdex.system.shared_lock import SharedLock


def test_readers_share_the_lock_and_writers_exclude_all() -> None:
    lock, reading, most, torn = SharedLock(), 0, 0, list[str]()
    count, begin = threading.Lock(), time.monotonic()
    value = [0, 0]

    def going_on() -> bool:
        """True for half a second or, on a slow machine, until enough has happened."""
        spent = time.monotonic() - begin
        return spent < 0.5 or (spent < 60 and (most < 2 or value[0] <= 10))

    def read() -> None:
        nonlocal reading, most
        while going_on():
            with lock.shared():
                with count:
                    reading += 1
                    most = max(most, reading)
                if value[0] != value[1]:
                    torn.append("read")
                time.sleep(0.001)
                with count:
                    reading -= 1

    def write() -> None:
        while going_on():
            with lock.exclusive():
                if reading:
                    torn.append("write")
                value[0] += 1
                time.sleep(0.0005)
                value[1] += 1

    threads = [threading.Thread(target=work) for work in (read, read, read, write, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torn == []
    assert most >= 2
    assert value[0] == value[1] > 10, "writers are not starved by readers"


def test_the_lock_is_released_after_an_error() -> None:
    lock = SharedLock()
    for hold in (lock.shared, lock.exclusive):
        try:
            with hold():
                raise KeyError
        except KeyError:
            pass
    with lock.exclusive():
        pass
