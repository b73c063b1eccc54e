"""Ray: the processes of a cluster, or of this machine, as the workers of a long build.

Documents, commits and files stay with the process that builds; what goes out are texts and rows, a
part at a time, and what comes back are vectors, moments and codes. A part whose process or node
dies is computed elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeVar
from uuid import uuid4

from slimdex.indexes.errors import InputError
from slimdex.indexes.workers import PartError

from ..encoders.processor import cores, use_cores

Part = TypeVar("Part")
Result = TypeVar("Result")

LOCAL = "local"
"""In place of an address: a cluster of this machine alone, for as long as it is needed."""
RETRIES = 5
"""Processes that may die over a part before it is given up."""
WAITING = 4
"""Parts for each worker, at most, that are under way or done while an earlier one is not."""
QUEUED = 2
"""Parts for each worker that Ray is given: the next is there when one ends."""
ANSWERS_S = 10.0
"""Seconds that the head of a cluster may take to answer."""
OBJECT_BYTES, OBJECT_BYTES_A_WORKER = 256 << 20, 64 << 20
"""Memory for what is sent between processes of this machine."""


class RayWorkers:
    """Workers of one processor each, for a `with` statement.

    Parameters
    ----------
    address : of a cluster, as ``ray start --head`` prints it, or "auto" for that of this machine;
        "local" starts one that ends with the statement. All of its machines need this slimdex, and
        models in the folders in which they are here.
    workers : how many, 1 or more; by default as many as there are processors.

    Raises
    ------
    InputError
        If there is no such cluster, or it has fewer processors.
    """

    def __init__(self, address: str = LOCAL, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"workers={workers}; expected 1 or more")
        ray = _ray()
        self._ray, self._session = ray, ""
        self._starts = not ray.is_initialized()
        if address == LOCAL:
            workers = workers or cores()
        if self._starts:
            self._session = _start(ray, address, workers)
        processors = int(ray.cluster_resources().get("CPU", 0))
        self.count = workers or processors
        if self.count > processors:
            self.close()
            raise InputError(f"workers={workers}; expected at most the cluster's {processors}")
        self._queued = self.count * (QUEUED if self.count == processors else 1)
        self._compute = ray.remote(num_cpus=1, max_retries=RETRIES)(_computed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._starts:
            self._starts = False
            self._ray.shutdown()
            if self._session:
                shutil.rmtree(self._session, ignore_errors=True)

    def map(
        self, function: Callable[[Part], Result], parts: Iterable[Part]
    ) -> Iterator[tuple[Part, Result]]:
        """Each part with the function of it, in the parts' order; parts are taken as needed.

        Raises
        ------
        PartError
            If the function fails for a part, or too many processes die over it.
        """
        # In a list, since Ray would otherwise unpack it again for every part.
        sent = [self._ray.put(function)]
        name, left = uuid4().hex, iter(parts)
        waiting, under_way = deque[tuple[Part, Any]](), set[Any]()
        while True:
            for part in self._next_parts(left, len(waiting), under_way):
                under_way.add(ref := self._compute.remote(name, sent, part))
                waiting.append((part, ref))
            if not waiting:
                return
            part, ref = waiting[0]
            if ref in under_way:
                done, _ = self._ray.wait([*under_way], num_returns=1)
                under_way.difference_update(done)
            else:
                waiting.popleft()
                yield part, self._result(part, ref)

    def _next_parts(
        self, parts: Iterator[Part], waiting: int, under_way: set[Any]
    ) -> Iterator[Part]:
        """Parts that there is room for; the caller puts each under way before it takes the next."""
        while len(under_way) < self._queued and waiting < WAITING * self.count:
            try:
                part = next(parts)
            except StopIteration:
                return
            waiting += 1
            yield part

    def _result(self, part: Any, ref: Any) -> Any:
        try:
            return self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            told = str(cause) if isinstance(cause, InputError) else _in_a_line(cause)
            raise PartError(part, told) from error
        except self._ray.exceptions.WorkerCrashedError as error:
            why = f"{RETRIES + 1} processes died over it, for lack of memory perhaps"
            raise PartError(part, why) from error
        except self._ray.exceptions.RayError as error:
            raise PartError(part, _in_a_line(error)) from error


def _ray() -> Any:
    """The library, which is an extra; it is not to report to its makers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    return ray


def _start(ray: Any, address: str, workers: int | None) -> str:
    """Join a cluster, or start one here; returns the folder that is to go with it."""
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == LOCAL:
        context = ray.init(
            address=LOCAL,
            num_cpus=workers,
            num_gpus=0,
            include_dashboard=False,
            object_store_memory=OBJECT_BYTES + OBJECT_BYTES_A_WORKER * (workers or 1),
            **quiet,
        )
        return str(context.address_info["session_dir"])
    try:
        if found := re.search(r"([\w.-]+):(\d+)$", address):  # Ray would wait for minutes
            socket.create_connection((found[1], int(found[2])), ANSWERS_S).close()
        ray.init(address=address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"ray {address!r}: {_in_a_line(error)}; expected the address of a cluster that runs, "
            f"or {LOCAL}"
        ) from error
    return ""


def _in_a_line(error: BaseException) -> str:
    """What an error says, without the traceback that Ray puts before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__


_functions: dict[str, Callable[[Any], Any]] = {}
"""In a worker: the one function that it computes, by the name of its map."""


def _computed(name: str, sent: list[Any], part: Any) -> Any:
    """In a worker: the function of a part."""
    if name not in _functions:
        import ray

        os.environ["RAYON_NUM_THREADS"] = "1"  # of tokenizers; Ray has told OpenMP so
        use_cores(1)
        _functions.clear()
        _functions[name] = ray.get(sent[0])
    return _functions[name](part)
