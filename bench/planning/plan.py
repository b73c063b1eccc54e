"""Plan: what a workload takes on one machine and on several, and when it takes several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, log10
from typing import Any

from slimdex.indexes.errors import InputError

from .estimates import MOST_MACHINES, Asked, Estimates
from .laws import Evidence, Law, weakest
from .model import Model
from .workload import MOST, Workload

DOUBLINGS = 20
"""So often the number of parts is doubled, to find with how many machines are fewest."""
STEPS = 50
"""Sizes that are tried between a number of documents and ten times as many."""


Both = tuple[Workload, Workload]
"""All documents, and the share of them that one of several machines has."""


@dataclass(frozen=True)
class Figure:
    """One line of a plan.

    Attributes
    ----------
    unit : bytes, s, /s, or "" of a number.
    one : on one machine with all documents.
    many : on each of several among which they are divided.
    evidence, many_evidence : of the two; None where a figure was given.
    """

    name: str
    unit: str
    one: float
    many: float
    evidence: Evidence | None
    many_evidence: Evidence | None


@dataclass(frozen=True)
class Plan:
    """Figures, and how many machines memory and load take.

    Attributes
    ----------
    for_memory : machines that hold the documents once.
    for_load : machines that also answer all queries.
    for_build : machines that build it in the hours that were asked for, or, where what they can't
        divide takes longer, so many that more would not help.
    build_s : seconds that these take.
    machines : that `Figure.many` is told for.
    parts : among so many of them the documents are divided; with more, each part is there again.
    ray_from, milvus_from : reason -> documents from which on it begins to pay; None if never.
    """

    asked: Asked
    figures: list[Figure]
    for_memory: int
    for_load: int
    for_build: int
    build_s: float
    machines: int
    parts: int
    ray_from: dict[str, int | None]
    milvus_from: dict[str, int | None]


class Planner(Estimates):
    """Estimates of a workload and its parts, told with what they rest on."""

    def plan(self) -> Plan:
        """Everything that is told."""
        whole, asked = self.of(self.asked.workload.documents), self.asked
        for_memory = self.parts_needed(whole)
        parts, for_load = self.fewest(whole, for_memory)
        machines, for_build = asked.machines or for_load, self.machines_to_build(whole)
        parts = asked.machines or parts
        part = self.of(whole.documents / parts)
        return Plan(
            replace(asked, workload=whole),
            [
                *self._recall(whole, part),
                *self._bytes((whole, part)),
                *self._build(whole, machines),
                *self._query((whole, part)),
                self._load(whole, part, parts, machines),
            ],
            for_memory,
            for_load,
            for_build,
            self.build_s(whole, for_build),
            machines,
            parts,
            {"build": self.first(lambda n: self.build_s(self.of(n)) > 3600 * asked.hours)},
            {
                "memory": self.first(lambda n: self.held(self.of(n)) > asked.machine.ram),
                "load": self.first(lambda n: self.capacity(self.of(n)) < asked.qps),
            },
        )

    def _recall(self, whole: Workload, part: Workload) -> list[Figure]:
        """Candidates, if they follow from a recall."""
        if (recall := self.asked.recall) is None:
            return []
        rests = [self.model.recall_evidence(w.documents, recall) for w in (whole, part)]
        return [Figure("candidates", "", whole.rescored, part.rescored, *rests)]

    @staticmethod
    def _figure(
        name: str,
        unit: str,
        figure: Callable[[Workload], float],
        laws: Sequence[Law],
        both: Both,
    ) -> Figure:
        """A figure for the whole and for a part, by the laws that it is made of."""
        rests = [weakest([law.evidence(workload.at) for law in laws]) for workload in both]
        one, many = map(figure, both)
        return Figure(name, unit, one, many, *rests)

    def _bytes(self, both: Both) -> list[Figure]:
        model, made = self.model, partial(self._figure, unit="bytes", both=both)
        kept = [model.vectors[both[0].stored], model.norms, model.documents, model.catalog]
        return [
            made("index in memory", figure=model.index_bytes, laws=[model.memory]),
            made("process that searches", figure=self.held, laws=[model.memory, model.process]),
            made("disk", figure=self.disk, laws=[model.memory, *kept]),
        ]

    def _build(self, whole: Workload, machines: int) -> list[Figure]:
        """Encoding and coding are divided among machines, fitting and writing are not."""
        model, at = self.model, whole.at
        given = self.asked.tokens_per_s is not None
        encode = None if given or not whole.tokens else model.token.evidence(at)
        parts = [
            ("encoding", self.encode_s(whole), machines, encode),
            ("fitting", self.fit_s(whole), 1, model.fit.evidence(at)),
            ("coding", self.code_s(whole), machines, model.index.evidence(at)),
            ("writing", self.write_s(whole), 1, model.write.evidence(at)),
        ]
        total = (
            sum(seconds for _, seconds, _, _ in parts),
            sum(seconds / among for _, seconds, among, _ in parts),
            weakest([evidence for *_, evidence in parts if evidence]),
        )
        figures = [
            Figure(f"build: {name}", "s", seconds, seconds / among, evidence, evidence)
            for name, seconds, among, evidence in parts
        ]
        return [*figures, Figure("build in all", "s", *total, total[-1])]

    def machines_to_build(self, workload: Workload) -> int:
        """Machines with which a build takes no longer than asked, or stops to get shorter."""
        alone = self.fit_s(workload) + self.write_s(workload)
        divided = self.encode_s(workload) + self.code_s(workload)
        left = max(3600 * self.asked.hours - alone, 0.01 * divided)
        return min(MOST_MACHINES, max(1, ceil(divided / left)))

    def _query(self, both: Both) -> list[Figure]:
        model, made = self.model, partial(self._figure, unit="s", both=both)
        usual = [model.query, model.search, model.hits]
        return [
            made("query: encoding", figure=self.encode_query_s, laws=[model.query]),
            made("query: searching", figure=self.search_s, laws=[model.search]),
            made("query in all, p50", figure=self.query_s, laws=usual),
            made("query, cold disk", figure=self.cold_query_s, laws=[*usual, model.page]),
        ]

    def _load(self, whole: Workload, part: Workload, parts: int, machines: int) -> Figure:
        model = self.model
        laws = (model.query, model.search, model.hits, model.process)
        rests = [weakest([law.evidence(of.at) for law in laws]) for of in (whole, part)]
        many = machines / parts * self.capacity(part, parts)
        return Figure("queries of all", "/s", self.capacity(whole), many, *rests)

    def parts_needed(self, workload: Workload) -> int:
        """Parts, each of which a machine has the memory for."""
        ram, parts = self.asked.machine.ram, 1
        while self.held(part := self.of(workload.documents / parts)) > ram:
            parts = max(parts + 1, ceil(parts * self.held(part) / ram * 0.999))
            if parts > MOST_MACHINES or workload.documents / parts < 1000:
                raise InputError(
                    f"--ram {ram:,} bytes; expected room for a process that has opened an index, "
                    f"{self.held(self.of(1000)):,.0f}"
                )
        return parts

    def fewest(self, workload: Workload, least: int) -> tuple[int, int]:
        """Parts, and the machines for them and for all queries: with smaller parts, a machine has
        memory for more processes; so many parts are taken that machines are fewest."""
        tried = list[tuple[int, int]]()
        for doubled in range(DOUBLINGS):
            parts = least << doubled
            if tried and (parts > MOST_MACHINES or workload.documents / parts < 1000):
                break
            part = self.of(workload.documents / parts)
            copies = max(1, ceil(self.asked.qps / self.capacity(part, parts)))
            tried.append((parts * copies, parts))
        machines, parts = min(tried)
        return parts, machines

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
    """A plan as JSON has it; bytes, seconds and queries a second."""
    asked, workload = made.asked, made.asked.workload
    return {
        "documents": workload.documents,
        "dim": workload.dim,
        "k": workload.kept,
        "kind": workload.resolved_kind,
        "lists": workload.lists,
        "stored": workload.stored,
        "candidates": workload.rescored,
        "tokens": workload.tokens,
        "text_bytes": workload.text_bytes,
        "operations_per_token": workload.token_operations,
        "qps": asked.qps,
        "recall": asked.recall,
        "machine": {"ram": asked.machine.ram, "cores": asked.machine.cores},
        "machines": {
            "for_memory": made.for_memory,
            "for_load": made.for_load,
            "for_build": made.for_build,
            "shown": made.machines,
            "parts": made.parts,
        },
        "build_s_of_these": made.build_s,
        "figures": [
            {
                "name": figure.name,
                "unit": figure.unit,
                "one_machine": figure.one,
                "each_of_many": figure.many,
                "evidence": figure.evidence.as_dict() if figure.evidence else None,
                "evidence_of_many": (
                    figure.many_evidence.as_dict() if figure.many_evidence else None
                ),
            }
            for figure in made.figures
        ],
        "ray_pays_from_documents": made.ray_from,
        "milvus_pays_from_documents": made.milvus_from,
    }
