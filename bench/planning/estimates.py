"""Estimates: what one index takes by a model, in bytes, seconds and queries a second."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from slimdex.indexes.errors import InputError

from .model import Model
from .workload import Machine, Workload, check_range

BUSY = 0.7
"""Share of its time that a core answers queries: with more, they wait for one another."""
PAGE = 4096
MOST_MACHINES = 1_000_000


@dataclass(frozen=True)
class Asked:
    """What is to be planned.

    Attributes
    ----------
    qps : queries a second.
    recall : of the ten nearest by exact search; None: with an index's own number of candidates.
    machines : among which documents are divided; None: as many as are needed.
    hours : that a build may take on one machine.
    tokens_per_s : that one machine encodes; None: by the model.

    Raises
    ------
    InputError
        If one of them is out of bounds.
    """

    workload: Workload
    machine: Machine
    qps: float = 1
    recall: float | None = None
    machines: int | None = None
    hours: float = 8
    tokens_per_s: float | None = None

    def __post_init__(self) -> None:
        check_range("--qps", self.qps, 0, 1e9)
        check_range("--build-hours", self.hours, 0.001, 1e6)
        if self.recall is not None and not 0.5 <= self.recall < 1:
            raise InputError(f"--recall {self.recall:g}; expected .5 or more, and less than 1")
        if self.machines is not None:
            check_range("--machines", self.machines, 1, MOST_MACHINES)
        if self.tokens_per_s is not None:
            check_range("--tokens-per-s", self.tokens_per_s, 1e-3, 1e12)


class Estimates:
    """A model, asked about one workload and parts of it."""

    def __init__(self, model: Model, asked: Asked) -> None:
        self.model, self.asked = model, asked

    def of(self, documents: float) -> Workload:
        """The workload with another number of documents, and the candidates that they take."""
        count = max(1000, ceil(documents))
        workload = replace(self.asked.workload, documents=count)
        if self.asked.recall is None:
            return workload
        return replace(workload, candidates=self.model.candidates(count, self.asked.recall))

    # bytes

    def held(self, workload: Workload) -> float:
        """Bytes of a process that searches."""
        return self.model.process_bytes(workload)

    def disk(self, workload: Workload) -> float:
        """Bytes of the index's folder."""
        terms = workload.terms()
        documents = self.model.documents(terms) + self.model.catalog(terms)
        return self.vectors_disk(workload) + documents

    def vectors_disk(self, workload: Workload) -> float:
        """The same without documents."""
        model, terms = self.model, workload.terms()
        vectors = model.vectors[workload.stored](terms) * terms["rows"]
        return vectors + model.norms(terms) + model.index_bytes(workload)

    # seconds of a build

    def encode_s(self, workload: Workload) -> float:
        """Until one machine has encoded all documents."""
        tokens = workload.documents * workload.tokens
        if self.asked.tokens_per_s is not None:
            return tokens / self.asked.tokens_per_s
        return tokens * self.model.token(workload.terms()) / self.asked.machine.cores

    def fit_s(self, workload: Workload) -> float:
        """Until moments, reducer and codebooks are fitted."""
        return self.model.fit(workload.terms()) / self.asked.machine.cores

    def code_s(self, workload: Workload) -> float:
        """Until rows are reduced and coded."""
        return self.model.index(workload.terms()) / self.asked.machine.cores

    def write_s(self, workload: Workload) -> float:
        """Until vectors and documents are written, which one core does."""
        return self.model.write(workload.terms())

    def build_s(self, workload: Workload, machines: int = 1) -> float:
        """Until an index is built: machines divide encoding and coding, not the rest."""
        divided = self.encode_s(workload) + self.code_s(workload)
        return divided / machines + self.fit_s(workload) + self.write_s(workload)

    # seconds of a query, and load

    def encode_query_s(self, workload: Workload) -> float:
        """Until a sentence is a vector."""
        return self.model.query(workload.terms())

    def search_s(self, workload: Workload) -> float:
        """From a vector to rows, one thread, files in the system's cache."""
        return self.model.search(workload.terms())

    def cold_s(self, workload: Workload) -> float:
        """What a search takes longer if all its rows come from the disk."""
        row = self.model.vectors[workload.stored](workload.terms())
        pages = workload.rescored * (2 + (row - 1) / PAGE)  # one of them for the norm
        return self.model.page({"pages": pages})

    def query_s(self, workload: Workload) -> float:
        """From a text to documents."""
        hits = self.model.hits(workload.terms())
        return self.encode_query_s(workload) + self.search_s(workload) + hits

    def cold_query_s(self, workload: Workload) -> float:
        """The same if the vectors are not in the system's cache."""
        return self.query_s(workload) + self.cold_s(workload)

    def processes(self, workload: Workload) -> int:
        """That one machine has cores and memory for; at least one."""
        machine = self.asked.machine
        return max(1, min(machine.cores, int(machine.ram // self.held(workload))))

    def capacity(self, part: Workload, parts: int = 1) -> float:
        """Queries a second of machines that hold a part each: a process answers on its own core.

        Each of them searches for every query, of which one encodes the text.
        """
        search = self.query_s(part) - self.encode_query_s(part)
        busy = parts * search + self.encode_query_s(part)
        return BUSY * parts * self.processes(part) / busy
