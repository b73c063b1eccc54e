"""Estimates: what one index takes by a model, in bytes and in seconds of a build."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from .model import Model
from .workload import Machine, Workload, check_range

MOST_MACHINES = 1_000_000


@dataclass(frozen=True)
class Asked:
    """What is to be planned.

    Attributes
    ----------
    machines : among which documents are divided; None: as many as are needed.
    hours : that a build may take on one machine.
    tokens_per_s : that one machine encodes; None: not known, and so no build is timed.

    Raises
    ------
    InputError
        If one of them is out of bounds.
    """

    workload: Workload
    machine: Machine
    machines: int | None = None
    hours: float = 8
    tokens_per_s: float | None = None

    def __post_init__(self) -> None:
        check_range("--build-hours", self.hours, 0.001, 1e6)
        if self.machines is not None:
            check_range("--machines", self.machines, 1, MOST_MACHINES)
        if self.tokens_per_s is not None:
            check_range("--tokens-per-s", self.tokens_per_s, 1e-3, 1e12)

    @property
    def is_timed(self) -> bool:
        """Whether the time of encoding is known, which is most of a build."""
        return self.tokens_per_s is not None or not self.workload.tokens


class Estimates:
    """A model, asked about one workload and parts of it."""

    def __init__(self, model: Model, asked: Asked) -> None:
        self.model, self.asked = model, asked

    def of(self, documents: float) -> Workload:
        """The workload with another number of documents."""
        return replace(self.asked.workload, documents=max(1000, ceil(documents)))

    # bytes

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
        """Until one machine has encoded all documents; 0 where that is not known."""
        if self.asked.tokens_per_s is None:
            return 0.0
        return workload.documents * workload.tokens / self.asked.tokens_per_s

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
