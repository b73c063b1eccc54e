"""Spare threads: run parts of a search in parallel with its thread while processors are free.

Unlike OpenMP's threads, they sleep while they wait. The caller runs every part that no thread has
started, so busy threads and processors delay it little.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")
_most_cores: int | None = None


def use_cores(count: int) -> None:
    """Limit spare threads, and encoders loaded from now on, to this many CPUs."""
    global _most_cores
    _most_cores = count


def most_cores() -> int | None:
    """Limit set by `use_cores`; None without one."""
    return _most_cores


def cores() -> int:
    """Number of CPUs available to this process."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return count if _most_cores is None else min(count, _most_cores)


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """The threads of a process: a forked one has its own."""
    return ThreadPoolExecutor(threads, "slimdex-spare")


def begin(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Future[Result]]:
    """Queue parts for spare threads, which are one fewer than the CPUs; return their futures.

    Returns an empty list if there is no other CPU, or Python is ending.
    """
    count = cores()
    if count < 2:
        return []
    try:
        pool = _pool(os.getpid(), count - 1)
        return [pool.submit(function, part) for part in parts]
    except RuntimeError:  # Python is ending
        return []


@contextmanager
def in_parallel(
    function: Callable[[Part], Result], parts: Sequence[Part]
) -> Iterator[Callable[[], list[Result]]]:
    """Start parts of a job on spare threads; yields a function that returns all results.

    That function runs the parts that no thread has started, and waits for the others. No part runs
    after the context ends.

    >>> with in_parallel(abs, [-1, 2]) as results:
    ...     abs(-3), results()
    (3, [1, 2])
    """
    futures = begin(function, parts)

    def results() -> list[Result]:
        if not futures:
            return [function(part) for part in parts]
        # Threads begin with the first part, so the caller begins with the last.
        values = list[Result]()
        for part, future in zip(reversed(parts), reversed(futures), strict=True):
            if future.cancel():  # no thread has started it
                values.append(function(part))
            else:
                values.append(future.result())
        return values[::-1]

    try:
        yield results
    finally:
        for future in futures:
            if not future.cancel():
                future.exception()  # waits for its end
