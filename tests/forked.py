"""Processes forked from one that has imported what is heavy: each starts in a tenth of a second.

`python -m slimdex` takes a second or two of imports. Where it is not the start of Python itself
that is tried, its commands run here: in a process of their own, on file descriptors of their own.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from typing import Any

PRELOADED = [
    "slimdex.indexes.reducers.linear",
    "slimdex.indexes.search.rescoring",
    "slimdex.retrieval.store.engine",
    "slimdex.retrieval.collection",
    "slimdex.retrieval.ingest.preparing",
    "tests.chance",
    "tests.encoders",
    "httpx",
    "slimdex.retrieval.building",
    "slimdex.retrieval.ingest.repairing",
    "rich.markup",
    "rich.table",
    "slimdex.retrieval.cli.console",
    "rich.text",
    "slimdex.retrieval.server.app",
]
"""Not the command line itself: it looks at its terminal when it is imported."""


_REAPING = threading.Lock()
"""`start` reads the exit codes of all children that have ended, and each can be read only once:
without the lock, a thread that reads its child's at that moment gets 255."""


def process(target: Callable[..., object], *arguments: Any) -> ForkServerProcess:
    """A process, started, that ends with the one that asked for it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    made = context.Process(target=target, args=arguments, daemon=True)
    with _REAPING:
        made.start()
    return made


def exit_code(child: ForkServerProcess, timeout: float) -> int | None:
    """Wait for a process's end from any thread; None if it takes longer, in seconds."""
    wait([child.sentinel], timeout)
    with _REAPING:
        child.join(0)
        return child.exitcode


def command(
    words: Sequence[str], environment: Mapping[str, str], stdin: int, stdout: int, stderr: int
) -> ForkServerProcess:
    """`slimdex` with these words, variables and file descriptors, which stay open here, too."""
    streams = [_Passed(number) for number in (stdin, stdout, stderr)]
    return process(_slimdex, list(words), dict(environment), streams)


class _Passed:
    """A file descriptor that another process gets."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Callable[[Any], _Passed], tuple[Any]]:
        return _received, (DupFd(self.number),)


def _received(passed: Any) -> _Passed:
    return _Passed(passed.detach())


def _slimdex(words: list[str], environment: dict[str, str], streams: list[_Passed]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate(streams):
        os.dup2(stream.number, number)
    for stream in streams:
        os.close(stream.number)
    sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.argv = ["slimdex", *words]
    from slimdex.__main__ import main

    main()
