"""Checks: what the model says of indexes that were measured, beside what they took.

To some of them the laws were fitted; to others, of real texts, they were not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..rows import Row
from . import observations as seen
from .estimates import Asked, Estimates
from .model import Model
from .workload import Machine, Workload

ANY = Machine(ram=10**12, cores=1)
"""Figures of one index do not depend on the machine's memory; seconds are of one core."""
SIZES: dict[str, Callable[[Row], float]] = {
    "index, bytes": seen.index_bytes,
    "disk, bytes": lambda row: sum(row[name] for name in seen.DISK),
    "build without encoding, core-s": lambda row: row["build_cpu_s"],
}
"""Figure -> what a row of sizes says of it."""
MODELLED: dict[str, Callable[[Estimates, Workload], float]] = {
    "index, bytes": lambda estimates, workload: estimates.model.index_bytes(workload),
    "disk, bytes": Estimates.disk,
    "disk without documents, bytes": Estimates.vectors_disk,
    "build without encoding, core-s": Estimates.build_s,
}


@dataclass(frozen=True)
class Check:
    """One figure of one index.

    Attributes
    ----------
    of : the set and the model, or made vectors.
    what : the figure, with its unit.
    fitted : whether a law was fitted to it.
    """

    of: str
    rows: int
    dim: int
    kind: str
    what: str
    measured: float
    modelled: float
    fitted: bool

    @property
    def error(self) -> float:
        """By how much the model is above what was measured, relative to it."""
        return self.modelled / self.measured - 1


def checks(model: Model, folder: Path) -> list[Check]:
    """Every index that is told apart by rows, dim and kind, made ones first."""
    rows = seen.Rows(folder)
    found = [check for row in seen.large(rows.sizes) for check in _of_size(model, row)]
    found += [check for row in rows.retrieval for check in _of_retrieval(model, row)]
    found += [check for row in rows.tune for check in _of_tuning(model, row)]
    return [*dict.fromkeys(found)]


def _check(
    model: Model, row: Row, workload: Workload, what: str, measured: float, fitted: bool
) -> Check:
    modelled = MODELLED[what](Estimates(model, Asked(workload, ANY)), workload)
    of = f"{row['set']}, {row['model']}" if "set" in row else "made vectors"
    sizes = (workload.documents, workload.dim, workload.resolved_kind)
    return Check(of, *sizes, what, measured, modelled, fitted)


def _of_size(model: Model, row: Row) -> Iterator[Check]:
    for what, measured in SIZES.items():
        workload = seen.sized(row)
        yield _check(model, row, workload, what, measured(row), True)


def _of_retrieval(model: Model, row: Row) -> Iterator[Check]:
    """The default index of real texts, as it is searched again and again."""
    if row["documents"] < seen.LEAST_ROWS or row["kind"] != "pq" or 2 * row["k"] != row["dim"]:
        return
    workload, count = seen.sized(row), row["documents"]
    disk = count * row["disk_row_bytes"]
    yield _check(model, row, workload, "index, bytes", seen.index_bytes(row), True)
    yield _check(model, row, workload, "disk without documents, bytes", disk, False)


def _of_tuning(model: Model, row: Row) -> Iterator[Check]:
    """An index of real texts that was tuned, if it is large."""
    large = row.get("what") == "target" and row["documents"] >= 10 * seen.LEAST_ROWS
    if not large or row["way"] != "tuned":
        return
    workload = seen.sized(row)
    yield _check(model, row, workload, "index, bytes", row["ram_bytes"], False)
