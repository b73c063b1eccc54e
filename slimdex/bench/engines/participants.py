"""Processes that add documents to a store, and one that searches it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any, Self

import numpy as np

from slimdex.indexes.arrays import Matrix

from .engine import CHANGES, Batch, Place, Query
from .registry import database

DIM = 384
LIMIT = 10
PAUSE_S = 0.01
"""Time between two searches."""
VOCABULARY = ("rain", "ship", "cake", "stone", "river", "night", "glass", "road", "wool", "salt")
QUERIES = 10**9
"""Number of the first query's vector, above those of all documents."""


@dataclass
class Calls:
    """Calls of a process: ids that it added, seconds of each and of all, and refusals."""

    ids: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    elapsed: float = 0.0
    refusals: list[str] = field(default_factory=list)

    @classmethod
    def repeated(
        cls, seconds: float, prepared: Callable[[int], Any], call: Callable[[Any], Sequence[str]]
    ) -> Self:
        """Call for some seconds, and at least once, with what is prepared for each number."""
        made = cls()
        begin = monotonic()
        for number in count():
            argument = prepared(number)
            start = perf_counter()
            try:
                made.ids += call(argument)
            except Exception as error:  # whatever a store raises is its answer
                said = f"{type(error).__name__}: {error}"
                made.refusals.append(" ".join(said.split())[:200])
            else:
                made.seconds.append(perf_counter() - start)
            made.elapsed = monotonic() - begin
            if made.elapsed >= seconds:
                break
        return made


def documents(first: int, size: int) -> Batch:
    """Documents by their number, with random vectors."""
    numbers = range(first, first + size)
    texts = [" ".join(VOCABULARY[(n // 10**i) % 10] for i in range(9)) for n in numbers]
    return Batch(numbers, [*map(str, numbers)], texts, np.stack([*map(vector, numbers)]))


def vector(number: int) -> Matrix:
    """The vector of a document."""
    found: Matrix = np.random.default_rng(number).standard_normal(DIM, dtype=np.float32)
    return found


class Participant:
    """A process that opens one folder after the other with a database."""

    def __init__(self, name: str) -> None:
        self._database = database(name)

    def open(self, folder: Path) -> None:
        """Open a folder."""
        self._database.open(Place(folder, DIM, CHANGES))

    def close(self) -> None:
        """Close the folder."""
        self._database.close()

    def fill(self, folder: Path, count: int) -> None:
        """Make a store of the first documents."""
        folder.mkdir()
        self.open(folder)
        self._database.add([documents(0, count)])
        self._database.finish()
        self.close()

    def write(self, first: int, size: int, seconds: float) -> Calls:
        """Add documents from a number on, `size` in each commit."""

        def add(batch: Batch) -> Sequence[str]:
            self._database.add([batch])
            return batch.ids

        return Calls.repeated(seconds, lambda number: documents(first + number * size, size), add)

    def search(self, seconds: float) -> Calls:
        """Search for one random vector after the other."""

        def prepared(number: int) -> Query:
            sleep(PAUSE_S)
            return Query(vector(QUERIES + number))

        def find(query: Query) -> Sequence[str]:
            self._database.fetch(query, LIMIT)
            return ()

        return Calls.repeated(seconds, prepared, find)

    def unseen(self, ids: Sequence[str]) -> float:
        """Share of documents that a search for their own vectors does not find."""
        return sum(not self._finds(id) for id in ids) / max(1, len(ids))

    def _finds(self, id: str) -> bool:
        try:
            found = self._database.fetch(Query(vector(int(id))), LIMIT)
        except Exception:
            return False
        return id in dict(found)

    def ids(self) -> set[str]:
        """Ids of all documents."""
        return self._database.ids()
