"""Locks and objects that a forked process renews, and work that delays a fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from threading import Event, Thread
from time import sleep

import pytest

from slimdex.system.forks import SharedLock, ThreadLock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
AMID_PRODUCTS = """
    import os, signal, sys, threading
    import numpy as np
    from slimdex.system.threads import LARGE, eigh, product, threads_for

    def multiply():
        while not stopped.is_set():
            with threads_for(LARGE):  # on all threads
                X @ X.T, np.linalg.eigh(X.T @ X)

    X = np.random.default_rng(0).standard_normal((300, 200))
    stopped, thread = threading.Event(), threading.Thread(target=multiply)
    thread.start()
    for _ in range(6):
        forked = os.fork()
        if not forked:
            signal.alarm(60)
            eigh(product(X.T, X))
            os._exit(0)
        assert os.waitpid(forked, 0)[1] == 0
    stopped.set()
    thread.join(60)
    print(thread.is_alive())
"""
PRODUCT_OF_A_WRITER = """
    import os, threading, time
    import numpy as np
    from slimdex.system.forks import SharedLock
    from slimdex.system.threads import product

    def write():
        with lock.exclusive():
            begun.set()
            while not forking.is_set():
                time.sleep(0.01)
            time.sleep(0.3)
            product(X, X)

    X, lock = np.eye(9), SharedLock()
    begun, forking = threading.Event(), threading.Event()
    thread = threading.Thread(target=write)
    thread.start()
    begun.wait(60)
    forking.set()
    forked = os.fork()
    if not forked:
        with lock.exclusive():
            product(X, X)
        os._exit(0)
    print(os.waitpid(forked, 0)[1])
    thread.join(60)
    print(thread.is_alive())
"""


def succeeds_in_a_fork(work: Callable[[], object]) -> bool:
    """Return whether a forked process does some work, within seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about threads
        child = os.fork()
    if not child:  # pragma: no cover - another process
        signal.alarm(20)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def held(lock: ThreadLock, begun: Event, end: Event) -> None:
    with lock:
        begun.set()
        end.wait(60)


def test_a_lock_of_another_thread_is_free_in_a_fork() -> None:
    lock, begun, end = ThreadLock(), Event(), Event()
    thread = Thread(target=held, args=[lock, begun, end])
    thread.start()
    begun.wait(60)

    def work() -> None:
        with lock, lock:
            pass

    assert succeeds_in_a_fork(work)
    end.set()
    thread.join(60)
    with lock:  # the forking thread's own
        assert succeeds_in_a_fork(work)


def test_a_fork_waits_for_a_writer_and_not_for_readers() -> None:
    lock, begun, written = SharedLock(), Event(), list[int]()

    def write() -> None:
        with lock.exclusive():
            written.append(1)
            begun.set()
            sleep(0.2)
            written.append(2)

    def work() -> None:
        assert written == [1, 2]
        with lock.exclusive(), lock_of_readers.exclusive():
            pass

    lock_of_readers = SharedLock()
    thread = Thread(target=write)
    thread.start()
    begun.wait(60)
    with lock_of_readers.shared():
        assert succeeds_in_a_fork(work)
    thread.join(60)
    with lock.exclusive(), lock_of_readers.exclusive():
        pass


@pytest.mark.parametrize(
    ("script", "printed"), [(AMID_PRODUCTS, "False\n"), (PRODUCT_OF_A_WRITER, "0\nFalse\n")]
)
def test_a_fork_amid_products_leaves_parent_and_child_able_to_multiply(
    script: str, printed: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore:.*fork", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == printed, done.stderr


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
