"""Plan: number of machines for a workload, and the sizes from which Ray and Milvus pay."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

from slimdex.indexes.errors import InputError

from .workload import LEAST, MOST, Workload, check_range


@dataclass(frozen=True)
class Plan:
    """A workload on machines of one size.

    Parameters
    ----------
    ram : bytes of one machine's memory available to an index.
    among : machines to divide the documents among; by default as many as memory requires.
    limit : maximum hours of encoding on one machine.
    tokens_per_s : tokens that one machine encodes per second; None if unknown.

    Raises
    ------
    InputError
        If a value is out of bounds, or there is no memory for a small index.

    >>> plan = Plan(Workload(10**9, 768), ram=16 * 10**9, tokens_per_s=1e5)
    >>> plan.for_memory, plan.for_encoding, plan.ray_from
    (4, 35, 28800001)
    """

    workload: Workload
    ram: int
    among: int | None = None
    limit: float = 8
    tokens_per_s: float | None = None

    def __post_init__(self) -> None:
        check_range("--ram", self.ram, 1e6, 1e16)
        check_range("--build-hours", self.limit, 0.001, 1e6)
        if self.among is not None:
            check_range("--machines", self.among, 1, 1e6)
        if self.tokens_per_s is not None:
            check_range("--tokens-per-s", self.tokens_per_s, 1e-3, 1e12)
        if (least := self.workload.of(LEAST).memory) > self.ram:
            raise InputError(
                f"--ram {self.ram:,} bytes; expected room for the index of {LEAST:,} documents, "
                f"{least:,.0f}"
            )

    @cached_property
    def fitting(self) -> int:
        """Maximum number of documents whose index fits in one machine's memory."""
        counts = range(LEAST, MOST + 1)
        first = bisect_right(
            counts, self.ram, key=lambda count: ceil(self.workload.of(count).memory)
        )
        return counts[first - 1]

    @property
    def for_memory(self) -> int:
        """Machines required for the memory of the index."""
        return ceil(self.workload.documents / self.fitting)

    @property
    def for_encoding(self) -> int | None:
        """Machines required to encode the documents within the limit; None if unknown."""
        hours = self.hours(self.workload)
        return None if hours is None else ceil(hours / self.limit)

    @property
    def machines(self) -> int:
        """Machines to divide the documents among."""
        return self.among or self.for_memory

    @property
    def part(self) -> Workload:
        """Documents of each of these machines."""
        return self.workload.of(self.workload.documents / self.machines)

    @property
    def ray_from(self) -> int | None:
        """Minimum number of documents that one machine encodes too slowly; None if none, or
        unknown."""
        if self.tokens_per_s is None:
            return None
        count = int(3600 * self.limit * self.tokens_per_s / self.workload.tokens) + 1
        return count if count <= MOST else None

    @property
    def milvus_from(self) -> int | None:
        """Minimum number of documents too large for one machine's memory; None if none."""
        return None if self.fitting == MOST else self.fitting + 1

    def hours(self, workload: Workload) -> float | None:
        """Hours that one machine encodes; None if unknown."""
        if self.tokens_per_s is None:
            return None
        return workload.documents * workload.tokens / self.tokens_per_s / 3600

    def as_dict(self) -> dict[str, Any]:
        """All figures as JSON values."""
        whole = self.workload
        return {
            "documents": whole.documents,
            "dim": whole.dim,
            "k": whole.kept,
            "kind": whole.resolved_kind,
            "lists": whole.lists,
            "stored": whole.vector_dtype,
            "tokens": whole.tokens,
            "columns": whole.columns,
            "tokens_per_s": self.tokens_per_s,
            "ram": self.ram,
            "machines": {
                "for_memory": self.for_memory,
                "for_encoding": self.for_encoding,
                "shown": self.machines,
            },
            "one_machine": self._figures(whole),
            "each_of_many": self._figures(self.part),
            "ray_pays_from_documents": self.ray_from,
            "milvus_pays_from_documents": self.milvus_from,
        }

    def _figures(self, workload: Workload) -> dict[str, Any]:
        return {
            "memory_bytes": round(workload.memory),
            "disk_bytes": round(workload.disk),
            "files": {name: round(size) for name, size in workload.files.items()},
            "encoding_hours": self.hours(workload),
        }
