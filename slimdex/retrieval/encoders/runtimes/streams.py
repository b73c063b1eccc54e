"""Streams: concurrent batches on a few cores each, instead of one batch at a time on all cores.

Cores then need not synchronise at every operation of the network. Whether that is faster depends on
the processor and the model; it is measured on the actual batches and cached.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from threading import Lock
from time import perf_counter
from typing import Any

from slimdex.indexes.arrays import Matrix

from ...user_cache import remember, remembered
from ..tokens import Ids

Batch = tuple[Ids, Ids]
"""Ids and mask (n, seq)."""
OneByOne = Callable[[Iterable[Batch]], Iterator[Matrix]]
"""Function that runs each batch on all cores."""

WORTH_WHILE_S = 1.0
"""Seconds of work before a model is compiled for streams; compiling takes about as long."""
TURNS = 4
"""Rounds of each mode in the trial; the first is a warm-up."""


class Streams:
    """Runner of many batches in the faster mode.

    Parameters
    ----------
    compile_model : compiles an `openvino.CompiledModel` for throughput.
    name : cache key of the trial's result; not cached if empty.
    """

    def __init__(self, compile_model: Callable[[], Any], name: str = "") -> None:
        self._compile, self._name, self._lock = compile_model, name, Lock()
        known = remembered(name) if name else None
        self.faster: bool | None = known if isinstance(known, bool) else None
        self._model: Any = None
        self._count, self._worked_s = 0, 0.0
        self._seconds_per_token: tuple[list[float], list[float]] = ([], [])
        self._idle = list[list[Any]]()

    def run(self, batches: Iterator[Batch], one_by_one: OneByOne) -> Iterator[Matrix]:
        """Yield the network's output for each batch, in order."""
        yield from self._until_compiled(batches, one_by_one)
        yield from self._trial(batches, one_by_one)
        model = self._model
        if self.faster and model is not None:
            yield from self._side_by_side(model, batches)
        yield from one_by_one(batches)

    def _until_compiled(self, batches: Iterator[Batch], one_by_one: OneByOne) -> Iterator[Matrix]:
        while self._model is None and self.faster is not False:
            if self._worked_s >= WORTH_WHILE_S:
                self._make()
                return
            start = perf_counter()
            found = list(one_by_one(islice(batches, 1)))
            self._worked_s += perf_counter() - start
            yield from found
            if not found:
                return

    def _trial(self, batches: Iterator[Batch], one_by_one: OneByOne) -> Iterator[Matrix]:
        """Alternate between both modes until the faster is known."""
        while (model := self._model) is not None and self.faster is None:
            ways = (one_by_one, partial(self._side_by_side, model))
            turns = [len(seconds) for seconds in self._seconds_per_token]
            next_one = turns.index(min(turns))
            part = list(islice(batches, self._count))
            if not part:
                return
            start = perf_counter()
            found = list(ways[next_one](part))
            took = perf_counter() - start
            yield from found
            if len(part) == self._count:  # else some streams were idle
                seconds_per_token = took / sum(ids.size for ids, _ in part)
                self._seconds_per_token[next_one].append(seconds_per_token)
                self._decide()

    def _decide(self) -> None:
        """Compare medians after enough rounds."""
        if all(len(seconds) >= TURNS for seconds in self._seconds_per_token):
            alone, together = (statistics.median(s[1:]) for s in self._seconds_per_token)
            self.faster = together < alone
            if self._name:
                remember(self._name, self.faster)

    def _make(self) -> None:
        with self._lock:
            if self._model is None and self.faster is not False:
                model = self._compile()
                self._count = model.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
                if self._count > 1:
                    self._model = model
                else:
                    self.faster = False

    def _side_by_side(self, model: Any, batches: Iterable[Batch]) -> Iterator[Matrix]:
        """Run a batch in each stream, with one more in the queue."""
        idle, under_way = self._requests(model), deque[Any]()
        failed = False

        def oldest() -> Matrix:
            under_way[0].wait()  # if this fails, `finally` waits for it again
            idle.append(under_way.popleft())
            found: Matrix = idle[-1].get_output_tensor().data.copy()
            return found

        try:
            for ids, mask in batches:
                if not idle:
                    yield oldest()
                request = idle.pop()
                under_way.append(request)
                request.start_async([ids, mask], share_inputs=True)
            while under_way:
                yield oldest()
        finally:  # after a failure, or if the caller stops early
            for request in under_way:
                try:
                    request.wait()
                except RuntimeError:
                    failed = True
            self._give_back(model, [*idle, *under_way], failed=failed)

    def _requests(self, model: Any) -> list[Any]:
        """Take requests, one more than streams, for exclusive use by this thread."""
        with self._lock:
            if self._idle and self._model is model:
                return self._idle.pop()
        return [model.create_infer_request() for _ in range(self._count + 1)]

    def _give_back(self, model: Any, requests: list[Any], *, failed: bool) -> None:
        """Return requests to the pool; discard them and the model if a batch failed.

        After a failure, an OpenVINO stream fails for every batch of the same shape.
        """
        with self._lock:
            if self._model is not model:
                return
            if failed:
                self._model = None
                self._idle.clear()
            else:
                self._idle.append(requests)
