"""Worker: one method's engine in a process of its own, built, asked and measured."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.vector_file import VectorFile

from ..machine import Resident, limit_threads
from .engine import Footprint, Seconds
from .engine_specs import Method
from .remote_object import Subprocess

WARM_UP = 10
"""Queries asked before any is timed."""


class Worker(Subprocess):
    """A method's engine in its process; use it in a `with`.

    Parameters
    ----------
    method : what to measure.
    vectors, queries : files of float32 rows.
    """

    def __init__(self, method: Method, vectors: VectorFile, queries: VectorFile) -> None:
        files = tuple((f.path, f.dim, len(f)) for f in (vectors, queries))
        super().__init__(_Bench, method, *files)

    def build(self) -> Seconds:
        """Seconds by stage."""
        return self.ask("build")  # type: ignore[no-any-return]

    def set_effort(self, effort: int) -> None:
        """How hard the engine looks from now on; its own unit."""
        self.ask("set_effort", effort)

    def answer(self, k: int) -> tuple[Matrix, Rows]:
        """Answers (queries, k) to all queries, in one call and on all threads."""
        return self.ask("answer", k)  # type: ignore[no-any-return]

    def throughput(self, k: int, queries: int) -> float:
        """Queries a second, asked in one call, on all threads."""
        return self.ask("throughput", k, queries)  # type: ignore[no-any-return]

    def latencies(self, k: int, start: int, stop: int, threads: int | None) -> list[float]:
        """Seconds of each of the queries start .. stop, asked one at a time."""
        return self.ask("latencies", k, start, stop, threads)  # type: ignore[no-any-return]

    def memory(self) -> tuple[Footprint, Resident]:
        """Sizes that the structures report, and how much the process grew by the build."""
        return self.ask("memory")  # type: ignore[no-any-return]


class _Bench:
    """What runs in the process."""

    def __init__(
        self, method: Method, vectors: tuple[Path, int, int], queries: tuple[Path, int, int]
    ) -> None:
        self._engine = method.make()
        self._vectors = VectorFile(*vectors, np.float32)
        self._queries = VectorFile(*queries, np.float32).take(np.arange(queries[2]))
        self._folder = TemporaryDirectory(prefix="slimdex-bench-")  # removed with the process
        self._threads: int | None = None
        self._before = Resident.now()

    def build(self) -> Seconds:
        return self._engine.build(self._vectors, Path(self._folder.name))

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
