"""Threads of BLAS: one for small products, for which waking the others would take longest.

BLAS's threads wait by spinning. While other processes keep the processors busy, each thread gets
its turn late, and all others spin meanwhile. With two busy processes on two processors, the
eigenvectors of 384 dimensions took a second instead of 40 ms, and `slimdex search` in a new process
3 s instead of 1.5.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Condition
from time import monotonic, sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slimdex.system.forks import others_import

LARGE = 1 << 28
"""Multiplications of a product that is worth all threads: about 10 ms of one thread."""
FORK_SECONDS, POLL_SECONDS = 10.0, 0.001
"""Longest wait of a fork for products and imports, and the interval between checks."""


class Products:
    """Matrix products that threads of this process are computing.

    Most libraries have one number of threads for the process, so it is restored when the last small
    product ends. A fork waits until all products end: OpenBLAS ends its threads before a fork, and
    would wait forever for one that computes.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._running = 0
        self._small = 0
        self._forks = 0  # that wait
        self._numbers: list[int] = []

    @contextmanager
    def of(self, multiplications: int) -> Iterator[None]:
        """Context in which numpy multiplies matrices: on one thread, if the products are small.

        Not reentrant.

        >>> with threads_for(10):
        ...     {library.num_threads for library in _libraries()[0]}
        {1}
        """
        is_small = multiplications < LARGE
        with self._changed:
            # No product begins while a process forks.
            while self._forks:
                self._changed.wait()
            self._running += 1

            # OpenMP has a number of threads for each caller. BLAS has one for the process, which
            # another small product may have set already.
            blas, openmp = _libraries() if is_small else ([], [])
            numbers = [library.num_threads for library in openmp]
            if is_small and not self._small:
                self._numbers = [library.num_threads for library in blas]
            self._small += is_small
            for library in (*blas, *openmp):
                library.set_num_threads(1)
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._small -= is_small
                for library, number in zip(openmp, numbers, strict=True):
                    library.set_num_threads(number)
                if is_small and not self._small:
                    for library, number in zip(blas, self._numbers, strict=True):
                        library.set_num_threads(number)
                self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait for imports of other threads and for products; let no product begin.

        The caller must call `after_fork` or `in_fork` afterwards.
        """
        end = monotonic() + FORK_SECONDS
        while True:
            # Imports first, since they may need products.
            while others_import() and monotonic() < end:
                sleep(POLL_SECONDS)

            # Then products. The condition's lock stays acquired during the fork.
            self._changed.acquire()
            self._forks += 1
            self._changed.wait_for(lambda: not self._running, max(end - monotonic(), 0))
            if not others_import() or monotonic() >= end:
                return

            # An import has begun in the meantime: wait again.
            self.after_fork()

    def after_fork(self) -> None:
        """Let products begin again."""
        self._forks -= 1
        self._changed.notify_all()
        self._changed.release()

    def in_fork(self) -> None:
        """Let products begin in the forked process."""
        self._forks = 1  # other threads that wait to fork do not exist in this process
        self.after_fork()


_PRODUCTS = Products()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_PRODUCTS.before_fork,
        after_in_parent=_PRODUCTS.after_fork,
        after_in_child=_PRODUCTS.in_fork,
    )
threads_for = _PRODUCTS.of


def product(a: NDArray[Any], b: NDArray[Any]) -> Any:
    """Matrix product ``a @ b``; products of stacked matrices (..., n, m) count as small."""
    is_single = a.ndim == b.ndim == 2
    with threads_for(a.size * b.shape[-1] if is_single else 0):
        return a @ b


def eigh(matrix: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Eigenvalues (d,), smallest first, and eigenvectors (d, d) of a symmetric matrix."""
    with threads_for(decomposition(len(matrix))):
        values, vectors = np.linalg.eigh(matrix)
    return values, vectors


def decomposition(d: int) -> int:
    """Multiplications that threads can share when they decompose a matrix (d, d)."""
    return d**3 // 8


@contextmanager
def one_thread() -> Iterator[None]:
    """Restrict this process to one thread and one processor, to time single searches.

    Limits of OpenMP and BLAS do not affect libraries with thread pools of their own, so all threads
    of the process are also bound to one processor, where the system allows that.
    """
    from threadpoolctl import threadpool_limits  # only measurements need it

    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
    with threadpool_limits(limits=1):
        bind_threads({min(before)} if before else before)
        try:
            yield
        finally:
            bind_threads(before)


def bind_threads(processors: set[int]) -> None:
    """Bind all threads of this process to some processors, where the system allows that."""
    if not processors or not hasattr(os, "sched_setaffinity"):
        return
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread may have ended meanwhile
            os.sched_setaffinity(int(task.name), processors)


@cache
def _libraries() -> tuple[list[Any], list[Any]]:
    """Libraries of BLAS with a number of threads of their own, and those of OpenMP.

    An OpenBLAS on OpenMP, such as FAISS's, has the number that OpenMP has for the calling thread.
    The second list is empty without one.
    """
    from threadpoolctl import ThreadpoolController  # imports ctypes, which a search may not need

    libraries = ThreadpoolController().lib_controllers
    independent = []
    openmp = []
    is_on_openmp = False
    for library in libraries:
        if library.user_api == "openmp":
            openmp.append(library)
        elif library.user_api == "blas":
            if (library.internal_api, library.threading_layer) == ("openblas", "openmp"):
                is_on_openmp = True
            else:
                independent.append(library)
    return independent, openmp if is_on_openmp else []
