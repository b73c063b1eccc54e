"""Ray: processes of a cluster, or of this machine, as workers of a long build.

Documents, commits and files stay in the building process; it sends texts and rows in parts and
receives vectors, moments and codes. A part is recomputed elsewhere if its process or node dies.
"""

from __future__ import annotations

import os
import re
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeVar
from uuid import uuid4

from slimdex.errors import InputError
from slimdex.system.spare_threads import cores, use_cores
from slimdex.system.workers import PartError

Part = TypeVar("Part")
Result = TypeVar("Result")

LOCAL = "local"
"""Address of a temporary cluster on this machine."""
RETRIES = 5
"""Number of worker deaths after which a part is given up."""
WAITING = 4
"""Largest number of parts per worker that are running or waiting for an earlier one."""
QUEUED = 2
"""Parts per worker submitted to Ray, so that the next is ready when one ends."""
ANSWERS_S = 10.0
"""Seconds that the head of a cluster may take to answer."""
OBJECT_BYTES = 256 << 20
OBJECT_BYTES_A_WORKER = 64 << 20
"""Memory for data exchanged between processes of this machine."""


class RayWorkers:
    """Workers of one core each, for a `with` statement.

    Parameters
    ----------
    address : of a cluster, as ``ray start --head`` prints it, or "auto" for this machine's; "local"
        starts one that ends with the statement. All machines require this version of slimdex, and
        local models in the same folders.
    workers : 1 or more; by default one per core.

    Raises `InputError` if there is no such cluster, or it has fewer cores.
    """

    def __init__(self, address: str = LOCAL, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"workers={workers}; expected 1 or more")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray  # of the extra `cluster`; reads the variable above

        # Connect, unless this process is connected already.
        self._ray = ray
        self._starts = not ray.is_initialized()
        if address == LOCAL:
            workers = workers or cores()
        if self._starts:
            _start(ray, address, workers)

        # One core for each worker.
        processors = int(ray.cluster_resources().get("CPU", 0))
        self.count = workers or processors
        if self.count > processors:
            self.close()
            raise InputError(f"workers={workers}; expected at most the cluster's {processors}")
        # With spare cores, further parts would run at once instead of waiting.
        self._queued = self.count * (QUEUED if self.count == processors else 1)
        self._compute = ray.remote(num_cpus=1, max_retries=RETRIES)(_compute)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect from the cluster, and stop it if it was started here."""
        if self._starts:
            self._starts = False
            self._ray.shutdown()

    def map(
        self, function: Callable[[Part], Result], parts: Iterable[Part]
    ) -> Iterator[tuple[Part, Result]]:
        """Yield each part with the function's result, in order; parts are taken as needed.

        Raises `PartError` if the function fails for a part, or too many processes die on it.
        """
        # In a list, since Ray would otherwise deserialise it for every part.
        sent = [self._ray.put(function)]
        name = uuid4().hex
        remaining = iter(parts)
        ended = object()
        waiting = deque[tuple[Part, Any]]()  # parts to yield, in order
        under_way = set[Any]()  # those not known to be done
        while True:
            # Keep all workers busy, but hold few results that wait for an earlier one.
            while len(under_way) < self._queued and len(waiting) < WAITING * self.count:
                part: Any = next(remaining, ended)
                if part is ended:
                    break
                ref = self._compute.remote(name, sent, part)
                under_way.add(ref)
                waiting.append((part, ref))
            if not waiting:
                return

            # Yield the first part if it is done, or else wait for any.
            part, ref = waiting[0]
            if ref in under_way:
                done, _ = self._ray.wait([*under_way], num_returns=1)
                under_way.difference_update(done)
            else:
                waiting.popleft()
                yield part, self._result(part, ref)

    def _result(self, part: Any, ref: Any) -> Any:
        """Return the result of a part; raise `PartError` if it failed."""
        try:
            return self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            why = str(cause) if isinstance(cause, InputError) else _in_a_line(cause)
            raise PartError(part, why) from error
        except self._ray.exceptions.RayError as error:
            raise PartError(part, _in_a_line(error)) from error


def _start(ray: Any, address: str, workers: int | None) -> None:
    """Join or start a cluster."""
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == LOCAL:
        ray.init(
            address=LOCAL,
            num_cpus=workers,
            num_gpus=0,
            include_dashboard=False,
            object_store_memory=OBJECT_BYTES + OBJECT_BYTES_A_WORKER * (workers or 1),
            **quiet,
        )
        return
    try:
        # Try the address first: Ray would wait for minutes.
        host_and_port = re.search(r"(?<![\w.-])([\w.-]+):(\d+)$", address)
        if host_and_port is not None:
            socket.create_connection((host_and_port[1], int(host_and_port[2])), ANSWERS_S).close()
        ray.init(address=address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"ray {address!r}: {_in_a_line(error)}; expected the address of a cluster that runs, "
            f"or {LOCAL}"
        ) from error


def _in_a_line(error: BaseException) -> str:
    """Shorten an error to one line, without Ray's traceback."""
    lines = [*filter(None, map(str.strip, str(error).splitlines()))]
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__


_functions: dict[str, Callable[[Any], Any]] = {}
"""In a worker: its one function, by the name of its map."""


def _compute(name: str, sent: list[Any], part: Any) -> Any:
    """Apply the function of the map `name`, which is in `sent`, to a part; runs in a worker."""
    if name not in _functions:  # the first part of this map
        import ray  # which runs this function

        os.environ["RAYON_NUM_THREADS"] = "1"  # tokenizers; Ray has configured OpenMP
        use_cores(1)
        _functions.clear()
        _functions[name] = ray.get(sent[0])
    return _functions[name](part)
