"""Traffic: many threads search a collection while one changes it, and no answer is a mixture."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from slimdex.indexes.arrays import Matrix
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document

GROUP = 20
"""Documents that are only ever replaced together, so that a mixture of states would show."""


@dataclass
class Traffic:
    """What threads that search and one that writes do, and have done.

    The writer replaces the group by one commit at a time, each with the commit's number; a search
    for the group that finds two numbers, or not all of it, or a number that was replaced before
    the search began, has seen no committed state.

    Attributes
    ----------
    vectors : (GROUP, d), those of the group.
    begun, done : numbers of the last commit that was begun, and that has ended.
    """

    collection: Collection
    vectors: Matrix
    seconds: float = 0.0
    begun: int = 0
    done: int = 0
    changes: int = 0
    compactions: int = 0
    searches: int = 0
    faults: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def run(self, threads: int, seconds: float) -> Traffic:
        """Let so many threads search for so many seconds, while another writes."""
        self._replace_group()
        tasks: list[Callable[[], None]] = [partial(self._search, i) for i in range(threads)]
        tasks.append(self._write)
        workers = [threading.Thread(target=self._guarded, args=(task,)) for task in tasks]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        self._over.wait(seconds)
        self._over.set()
        for worker in workers:
            worker.join()
        self.seconds = time.perf_counter() - start
        return self

    def _guarded(self, task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            self.faults.append(f"{type(error).__name__}: {error}")
            self._over.set()

    def _write(self) -> None:
        while not self._over.is_set():
            self._replace_group()
            ids = [f"{self.begun} {i}" for i in range(GROUP)]
            self.collection.add([Document(id, "text") for id in ids], vectors=-self.vectors)
            self.collection.delete(ids[: GROUP // 2])
            self.changes += 3
            if self.begun % 10 == 0:
                self.compactions += bool(self.collection.compact())

    def _replace_group(self) -> None:
        self.begun += 1
        group = [
            Document(f"group {i}", f"text {i}", metadata={"n": self.begun, "kind": "group"})
            for i in range(GROUP)
        ]
        self.collection.add(group, vectors=self.vectors)
        self.done = self.begun

    def _search(self, seed: int) -> None:
        chosen = random.Random(seed)
        while not self._over.is_set():
            if chosen.random() < 0.5:
                self._check_group()
            else:
                self._check_one(chosen.randrange(GROUP))
            with self._counting:
                self.searches += 1

    def _check_group(self) -> None:
        least = self.done
        (hits,) = self.collection.search_many(
            queries=self.vectors[:1], limit=3 * GROUP, where="kind = 'group'"
        )
        numbers = [hit.metadata["n"] for hit in hits]
        whole = len(numbers) == GROUP and len(set(numbers)) == 1
        if not whole or not least <= numbers[0] <= self.begun:
            raise AssertionError(f"group of {sorted(set(numbers))}, {len(numbers)} hits")

    def _check_one(self, i: int) -> None:
        (hits,) = self.collection.search_many(self.vectors[i : i + 1], limit=5)
        if len(hits) != 5 or hits[0].id != f"group {i}":
            raise AssertionError(f"found {[hit.id for hit in hits]} for group {i}")
