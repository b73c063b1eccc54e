"""Worker: one method in a process of its own, so that memory and threads are its alone."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import numpy as np

from indexes.arrays import Matrix, Rows
from indexes.errors import InputError
from indexes.vector_file import VectorFile

from .engines import Footprint, Seconds
from .machine import Resident, limit_threads
from .methods import Method

LONGEST_STEP = 3600.0
"""Seconds that a build or a pass over the queries may take before it is given up."""
WARM_UP = 10
"""Queries asked before any is timed."""


class WorkerError(InputError):
    """A method failed or did not end; the message is for the row of results, or for the user."""


class Worker:
    """The parent's handle; use it in a `with`.

    Parameters
    ----------
    method : what to measure.
    vectors, queries : files of float32 rows.
    """

    def __init__(self, method: Method, vectors: VectorFile, queries: VectorFile) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        files = tuple((f.path, f.dim, len(f)) for f in (vectors, queries))
        self._process = context.Process(target=_serve, args=(theirs, method, *files), daemon=True)
        self._process.start()
        theirs.close()

    def build(self) -> Seconds:
        """Seconds by stage."""
        return self._ask("build")  # type: ignore[no-any-return]

    def set_effort(self, effort: int) -> None:
        self._ask("set_effort", effort)

    def answer(self, k: int) -> tuple[Matrix, Rows]:
        """Answers (queries, k) to all queries, in one call and on all threads."""
        return self._ask("answer", k)  # type: ignore[no-any-return]

    def throughput(self, k: int, queries: int) -> float:
        """Queries a second, asked in one call, on all threads."""
        return self._ask("throughput", k, queries)  # type: ignore[no-any-return]

    def latencies(self, k: int, start: int, stop: int, threads: int | None) -> list[float]:
        """Seconds of each of the queries start .. stop, asked one at a time."""
        return self._ask("latencies", k, start, stop, threads)  # type: ignore[no-any-return]

    def memory(self) -> tuple[Footprint, Resident]:
        """What the structures say, and the growth of the process since before the build."""
        return self._ask("memory")  # type: ignore[no-any-return]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process and free what it holds; closing twice does nothing."""
        self._pipe.close()  # ends its loop
        self._process.join(timeout=10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _ask(self, command: str, *arguments: Any) -> Any:
        try:
            self._pipe.send((command, arguments))
            if not self._pipe.poll(LONGEST_STEP):
                self._process.kill()
                raise WorkerError(f"{command}: no answer in {LONGEST_STEP:.0f} s")
            failed, answer = self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            self._process.join(timeout=10)
            code = self._process.exitcode
            raise WorkerError(f"{command}: the process ended with code {code}") from error
        if failed:
            raise WorkerError(f"{command}: {answer}")
        return answer


class _Bench:
    """What runs in the process."""

    def __init__(self, method: Method, vectors: VectorFile, queries: Matrix, folder: Path) -> None:
        self._engine = method.make()
        self._vectors, self._queries, self._folder = vectors, queries, folder
        self._threads: int | None = None
        self._before = Resident.now()

    def build(self) -> Seconds:
        return self._engine.build(self._vectors, self._folder)

    def set_effort(self, effort: int) -> None:
        self._engine.set_effort(effort)

    def answer(self, k: int) -> tuple[Matrix, Rows]:
        self._use(None)
        return self._engine.search(self._queries, k)

    def throughput(self, k: int, queries: int) -> float:
        self._use(None)
        chosen = self._queries[:queries]
        self._engine.search(chosen[:WARM_UP], k)
        start = perf_counter()
        self._engine.search(chosen, k)
        return len(chosen) / (perf_counter() - start)

    def latencies(self, k: int, start: int, stop: int, threads: int | None) -> list[float]:
        self._use(threads)
        seconds = []
        for query in self._queries[:WARM_UP]:
            self._engine.search(query[None], k)
        for query in self._queries[start:stop]:
            begin = perf_counter()
            self._engine.search(query[None], k)
            seconds.append(perf_counter() - begin)
        return seconds

    def memory(self) -> tuple[Footprint, Resident]:
        return self._engine.footprint(), Resident.now().since(self._before)

    def _use(self, threads: int | None) -> None:
        if threads != self._threads:
            limit_threads(threads)
            self._threads = threads


def _serve(
    pipe: Connection,
    method: Method,
    vectors: tuple[Path, int, int],
    queries: tuple[Path, int, int],
) -> None:
    """Do what comes through the pipe until its other end closes."""
    for stream in (1, 2):  # FAISS warns there, once for each part of a small training set
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    with TemporaryDirectory(prefix="slimdex-bench-") as folder, suppress(EOFError, BrokenPipeError):
        try:
            asked = VectorFile(*queries, np.float32).take(np.arange(queries[2]))
            bench = _Bench(method, VectorFile(*vectors, np.float32), asked, Path(folder))
            failure = None
        except Exception as error:  # a library that can't even be imported
            failure = _said(error)
        while True:
            command, arguments = pipe.recv()
            pipe.send((True, failure) if failure else _outcome(bench, command, arguments))


def _outcome(bench: _Bench, command: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """Whether the step failed, and its answer or what was wrong."""
    step: Callable[..., Any] = getattr(bench, command)
    try:
        return False, step(*arguments)
    except Exception as error:  # whatever a peer's library raises is its row's answer
        return True, _said(error)


def _said(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {text}"
