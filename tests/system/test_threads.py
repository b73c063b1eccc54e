"""Small products wake no threads of BLAS, which would wait by spinning."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from threading import Barrier, Thread

import pytest
from threadpoolctl import threadpool_info

from slimdex.system.threads import LARGE, one_thread, threads_for

SMALL_WORK = """
    import json, os, sys, time
    from pathlib import Path
    import numpy as np

    def spent(threads):
        parts = (Path(f"/proc/self/task/{each}/schedstat") for each in threads)
        return sum(int(part.read_text().split()[0]) for part in parts if part.exists()) / 1e9

    np.ones((2, 2)) @ np.ones((2, 2))
    others = {each for each in os.listdir("/proc/self/task")} - {str(os.getpid())}
    from slimdex.indexes.arrays import as_matrix
    from slimdex.indexes.reducers.linear import Whitening
    from slimdex.indexes.reducers.moments import Moments
    from slimdex.indexes.search.rescoring import Rescorer
    from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder

    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 384), dtype=np.float32)
    moments = Moments(384).update(X)
    reducer = Whitening(96, beta=1.0, gamma=1.0).fit_moments(moments)
    rescorer = Rescorer.fit(moments, 1.0, 1.0)
    file = Path(sys.argv[1]) / "words.vec"
    rows = (f"w{i} " + " ".join(f"{x:.3f}" for x in row) for i, row in enumerate(X[:200]))
    file.write_text("\\n".join(rows))
    encoder, text = StaticEncoder(file), " ".join(f"w{i}" for i in range(200))
    cases = {
        "a query": lambda: (reducer.transform(X[:1]), rescorer.probes(X[:1])),
        "queries": lambda: rescorer.probes(X[:20]),
        "an addition": lambda: (reducer.transform(X), rescorer.norms(X), as_matrix(X)),
        "moments": lambda: Moments(384).update(X),
        "a fit": lambda: Whitening(96, beta=1.0, gamma=1.0).fit_moments(moments),
        "a metric": lambda: Rescorer.fit(moments, 1.0, 1.0),
        "an encoded text": lambda: encoder.encode([text]),
    }
    shares = {}
    for name, work in cases.items():
        work()
        time.sleep(0.05)  # threads that woke before have gone to sleep
        start, before = time.thread_time(), spent(others)
        while time.thread_time() - start < 0.05:
            work()
        shares[name] = (spent(others) - before) / (time.thread_time() - start)
    print(json.dumps(shares))
"""


@pytest.mark.skipif(
    not Path("/proc/self/task").exists() or not Path("/proc/self/schedstat").exists(),
    reason="the times of threads are not known here",
)
def test_small_work_leaves_other_threads_asleep(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SMALL_WORK), str(tmp_path)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "8", "OMP_NUM_THREADS": "8"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    shares = json.loads(done.stdout)
    assert {name: share for name, share in shares.items() if share > 0.1} == {}


def blas_threads() -> list[int]:
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_threads_multiply_side_by_side_and_restore_the_number_of_threads() -> None:
    before, inside, meet = blas_threads(), list[list[int]](), Barrier(2, timeout=30)

    def multiply() -> None:
        with threads_for(0):
            meet.wait()  # both are inside
            inside.append(blas_threads())
            meet.wait()

    threads = [Thread(target=multiply) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [min(numbers) for numbers in inside] == [1, 1]  # numpy's library
    assert blas_threads() == before


def test_large_products_have_all_threads() -> None:
    before = blas_threads()
    with threads_for(LARGE):
        assert blas_threads() == before


def processors() -> set[int]:
    """Return the processors that each thread of this process may use."""
    tasks = Path("/proc/self/task").iterdir()
    return {each for task in tasks for each in os.sched_getaffinity(int(task.name))}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads can't be bound here")
def test_searches_are_timed_on_one_thread_of_one_processor() -> None:
    before = processors(), {each["filepath"]: each["num_threads"] for each in threadpool_info()}
    ended = Barrier(2)
    other = Thread(target=ended.wait)
    other.start()
    with one_thread():
        assert len(processors()) == 1
        assert {each["num_threads"] for each in threadpool_info()} == {1}
    after = processors(), {each["filepath"]: each["num_threads"] for each in threadpool_info()}
    assert after == before
    ended.wait()
    other.join()
