"""A fork waits for products and imports of other threads, which the forked process would miss."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from slimdex.system.threads import product, threads_for

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
AMID_AN_IMPORT = """
    import os, signal, sys, threading
    import slimdex.system.threads

    def use():
        import slow

    thread = threading.Thread(target=use)
    thread.start()
    while "slow" not in sys.modules:
        pass
    forked = os.fork()
    if not forked:
        signal.alarm(60)
        import slow
        os._exit(slow.VALUE)
    print(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]))
"""
SLOW = """
import time
import numpy as np
from slimdex.system.threads import product

time.sleep(0.5)
VALUE = int(product(np.ones((1, 7)), np.ones((7, 1)))[0, 0])
"""


def run(script: str, folder: Path) -> str:
    """The output of a script, which may import modules of a folder."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore:.*fork", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fork_amid_products_leaves_parent_and_child_able_to_multiply(tmp_path: Path) -> None:
    assert run(AMID_PRODUCTS, tmp_path) == "False\n"


def test_a_fork_waits_for_an_import_that_multiplies(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    assert run(AMID_AN_IMPORT, tmp_path) == "7\n"


def test_a_fork_beside_other_forks_can_multiply() -> None:
    """Each waits for the others' products, and none is kept from its own."""

    def fork() -> None:
        child = os.fork()
        if not child:  # pragma: no cover - another process
            signal.alarm(60)
            product(np.eye(3), np.eye(3))
            os._exit(0)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    codes = list[int]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about threads
        threads = [threading.Thread(target=fork) for _ in range(8)]
        with threads_for(1):  # all of them wait
            for thread in threads:
                thread.start()
            time.sleep(0.2)
        for thread in threads:
            thread.join(60)
    assert codes == [0] * 8
