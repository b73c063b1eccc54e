"""Plan: what a workload takes on one machine and on several, and when it takes several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log10
from typing import Any

from slimdex.indexes.errors import InputError

from .estimates import MOST_MACHINES, Asked, Estimates
from .model import Model
from .workload import MOST, Workload

STEPS = 50
"""Sizes that are tried between a number of documents and ten times as many."""


@dataclass(frozen=True)
class Figure:
    """One line of a plan.

    Attributes
    ----------
    unit : bytes or s.
    one : on one machine with all documents.
    many : on each of several among which they are divided.
    """

    name: str
    unit: str
    one: float
    many: float


@dataclass(frozen=True)
class Plan:
    """Figures, and how many machines memory and a build take.

    Attributes
    ----------
    for_memory : machines that hold the index once.
    for_build : machines that build it in the hours that were asked for, or, where what they can't
        divide takes longer, so many that more would not help; None if encoding is not timed.
    build_s : seconds that these take.
    machines : that `Figure.many` is stated for.
    ray_from, milvus_from : documents from which on each begins to pay; None if never, or not known.
    """

    asked: Asked
    figures: list[Figure]
    for_memory: int
    for_build: int | None
    build_s: float | None
    machines: int
    ray_from: int | None
    milvus_from: int | None


class Planner(Estimates):
    """Estimates of a workload and of its parts."""

    def plan(self) -> Plan:
        """Everything that is known."""
        whole, asked = self.asked.workload, self.asked
        for_memory = self.parts_needed(whole)
        machines = asked.machines or for_memory
        for_build = self.machines_to_build(whole) if asked.is_timed else None
        limit = 3600 * asked.hours
        return Plan(
            asked,
            [*self._bytes(whole, self.of(whole.documents / machines)), *self._build(machines)],
            for_memory,
            for_build,
            None if for_build is None else self.build_s(whole, for_build),
            machines,
            self.first(lambda n: self.build_s(self.of(n)) > limit) if asked.is_timed else None,
            self.first(lambda n: self.model.index_bytes(self.of(n)) > asked.machine.ram),
        )

    def _bytes(self, whole: Workload, part: Workload) -> list[Figure]:
        memory = self.model.index_bytes
        return [
            Figure("index in memory", "bytes", memory(whole), memory(part)),
            Figure("index on disk", "bytes", self.disk(whole), self.disk(part)),
        ]

    def _build(self, machines: int) -> list[Figure]:
        """Encoding and coding are divided among machines, fitting and writing are not."""
        whole, asked = self.asked.workload, self.asked
        parts = [
            ("fitting", self.fit_s(whole), 1),
            ("coding", self.code_s(whole), machines),
            ("writing", self.write_s(whole), 1),
        ]
        if asked.tokens_per_s is not None:
            parts.insert(0, ("encoding", self.encode_s(whole), machines))
        figures = [Figure(f"build: {name}", "s", s, s / among) for name, s, among in parts]
        if asked.is_timed:
            each = sum(figure.many for figure in figures)
            figures.append(Figure("build in all", "s", self.build_s(whole), each))
        return figures

    def machines_to_build(self, workload: Workload) -> int:
        """Machines with which a build takes no longer than asked, or stops to get shorter."""
        alone = self.fit_s(workload) + self.write_s(workload)
        divided = self.encode_s(workload) + self.code_s(workload)
        left = max(3600 * self.asked.hours - alone, 0.01 * divided)
        return min(MOST_MACHINES, max(1, ceil(divided / left)))

    def parts_needed(self, workload: Workload) -> int:
        """Parts, each of which a machine has the memory for."""
        ram, parts, held = self.asked.machine.ram, 1, self.model.index_bytes
        while held(part := self.of(workload.documents / parts)) > ram:
            parts = max(parts + 1, ceil(parts * held(part) / ram * 0.999))
            if parts > MOST_MACHINES or workload.documents / parts < 1000:
                raise InputError(
                    f"--ram {ram:,} bytes; expected room for the index of 1,000 documents, "
                    f"{held(self.of(1000)):,.0f}"
                )
        return parts

    @staticmethod
    def first(beyond: Callable[[float], bool]) -> int | None:
        """The fewest documents for which something is the case, to 5%; None if for none."""
        for step in range(3 * STEPS, round(log10(MOST) * STEPS) + 1):
            if beyond(count := 10 ** (step / STEPS)):
                return int(round(count, 2 - int(log10(count))))
        return None


def plan(model: Model, asked: Asked) -> Plan:
    """What a workload takes by a model."""
    return Planner(model, asked).plan()


def as_dict(made: Plan) -> dict[str, Any]:
    """A plan as JSON has it; bytes and seconds."""
    asked, workload = made.asked, made.asked.workload
    return {
        "documents": workload.documents,
        "dim": workload.dim,
        "k": workload.kept,
        "kind": workload.resolved_kind,
        "lists": workload.lists,
        "stored": workload.stored,
        "tokens": workload.tokens,
        "text_bytes": workload.text_bytes,
        "tokens_per_s": asked.tokens_per_s,
        "machine": {"ram": asked.machine.ram, "cores": asked.machine.cores},
        "machines": {
            "for_memory": made.for_memory,
            "for_build": made.for_build,
            "shown": made.machines,
        },
        "build_s_of_these": made.build_s,
        "figures": [
            {
                "name": figure.name,
                "unit": figure.unit,
                "one_machine": figure.one,
                "each_of_many": figure.many,
            }
            for figure in made.figures
        ],
        "ray_pays_from_documents": made.ray_from,
        "milvus_pays_from_documents": made.milvus_from,
    }
