"""Contenders, measured side by side in turns, each in its process.

Disturbances by other programs affect all alike. Figures are comparable within a run only, so a run
replaces all rows of an earlier one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from slimdex.indexes.execution.progress import progress
from slimdex.retrieval.quality.evaluation import latency

from ..engines.remote_object import Subprocess, WorkerError
from ..rows import ResultsFile, Row

T = TypeVar("T")


@dataclass
class Contender(Generic[T]):
    """A contender; after an error it is left out.

    Attributes
    ----------
    name : in the line about its failure.
    process : its own, or shared with others.
    row : columns known so far, kept if a later step fails.
    seconds : suffix of column names -> seconds of each query.
    """

    name: str
    process: Subprocess[T]
    row: Row
    error: str | None = None
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def attempt(self, step: Callable[[], object]) -> None:
        """Take a step, unless one has failed before."""
        if self.error is None:
            try:
                self.prepare()
                step()
            except WorkerError as error:
                self.error = str(error)

    def prepare(self) -> None:
        """Prepare the process for a step."""

    def measured(self) -> Row:
        """Columns, with percentiles of the seconds."""
        if self.error is not None:
            return self.row | {"error": self.error}
        times = {
            f"{measure}_{part}": value
            for part, found in self.seconds.items()
            for measure, value in latency(found).items()
        }
        return self.row | times


C = TypeVar("C", bound=Contender[Any])


def in_turns(
    contenders: Sequence[C],
    step: Callable[[C, int], object],
    stage: str,
    rounds: int = 1,
    after: Callable[[], object] = bool,
) -> None:
    """Take a step, with the contender and the round, for each in turn; call `after` each round."""
    for turn in range(rounds):
        for done, contender in enumerate(contenders, start=1):
            contender.attempt(partial(step, contender, turn))
            progress(stage, turn * len(contenders) + done, rounds * len(contenders))
        after()


def replace_rows(results: ResultsFile, contenders: Iterable[C], about: Row) -> list[str]:
    """Replace all rows by those of the contenders; returns a line for each failure."""
    found = list(contenders)
    results.replace([contender.measured() | about for contender in found])
    return list(dict.fromkeys(f"{c.name} failed: {c.error}" for c in found if c.error))
