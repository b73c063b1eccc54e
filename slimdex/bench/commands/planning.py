"""`slimdex plan`: what an index will take."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from slimdex.indexes import options as choices
from slimdex.indexes.errors import InputError
from slimdex.retrieval.cli.options.opening import Json
from slimdex.retrieval.cli.options.settings import K, NoLexical, Stored

if TYPE_CHECKING:
    from ..planning.plan import Plan
    from ..planning.workload import Workload

UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True)
class WorkloadOptions:
    """Documents to plan for, and settings of their index."""

    documents: Annotated[float, "How many, as 1e9; count passages if texts are cut into them."]
    dim: Annotated[int, "Dimensions of the encoder's vectors."] = 384
    tokens: Annotated[float, "Tokens of a document, of 4 bytes each."] = 100
    columns: Annotated[float, "Bytes of a document's title and metadata."] = 0
    k: K = None
    kind: Annotated[str, "How vectors are coded: pq, ivf-pq or auto."] = choices.AUTO
    vector_dtype: Stored = "fp16"
    no_lexical: NoLexical = False

    def workload(self) -> Workload:
        """Return the checked workload."""
        from ..planning.workload import LEAST, MOST, Workload, check_range

        check_range("--documents", self.documents, LEAST, MOST)
        return Workload(
            round(self.documents),
            self.dim,
            self.tokens,
            self.columns,
            self.k,
            self.kind,
            self.vector_dtype,
            not self.no_lexical,
        )


def plan(
    workload: WorkloadOptions,
    tokens_per_s: Annotated[
        float | None,
        "Tokens that one machine encodes per second, as `slimdex bench encode` measures; "
        "default: encoding is not timed.",
    ] = None,
    ram: Annotated[str | None, "SIZE", "Memory of one machine: 64GB; default: this one's."] = None,
    machines: Annotated[
        int | None, "Machines to divide the documents among; default: as many as it takes."
    ] = None,
    build_hours: Annotated[float, "Longest that one machine may encode."] = 8,
    as_json: Json = False,
) -> None:
    """Estimate what an index will take, on one machine or several: memory, disk, encoding."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.cli.options.sizes import parsed_size

    from ..planning.plan import Plan

    planned = workload.workload()
    memory = _memory() if ram is None else parsed_size(ram, "--ram")
    made = Plan(planned, memory, machines, build_hours, tokens_per_s)
    if as_json:
        console.print_json(made.as_dict())
        return
    console.line(_title(made))
    columns = {"one machine": _column(made, planned)}
    if made.machines > 1:
        columns[f"each of {made.machines:,}"] = _column(made, made.part)
    lines = [[name, *(each[name] for each in columns.values())] for name in columns["one machine"]]
    console.show_table(["", *columns], lines)
    for line in advice(made):
        console.line(line)


def _memory() -> int:
    """Memory of this machine in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError) as error:
        raise InputError("--ram: the memory of this system is unknown; expected a size") from error


def told(size: float) -> str:
    """Format bytes in three digits.

    >>> told(56e9), told(999.6e6), told(1234)
    ('56 GB', '1 GB', '1.23 kB')
    """
    unit, scale = next((each for each in UNITS if size >= each[1] * 0.9995), UNITS[-1])
    return f"{_digits(size / scale)} {unit}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def _title(plan: Plan) -> str:
    """Describe the workload and the machines."""
    whole = plan.workload
    lists = f" ({whole.lists:,} lists)" if whole.lists else ""
    return (
        f"{whole.documents:,} documents: {whole.resolved_kind}{lists}, k={whole.kept} of "
        f"{whole.dim}; machines of {told(plan.ram)}"
    )


def _column(plan: Plan, workload: Workload) -> dict[str, str]:
    found = {"index in memory": told(workload.memory), "index on disk": told(workload.disk)}
    found |= {f"  {name}": told(size) for name, size in workload.files.items()}
    hours = plan.hours(workload)
    return found if hours is None else found | {"encoding": f"{_digits(hours)} h"}


def advice(plan: Plan) -> list[str]:
    """Explain what the figures leave out, the number of machines, and when Ray and Milvus pay."""
    memory = f"{_machines(plan.for_memory)} for its memory"
    lexical = "words (the lexical index)"
    words = f"{lexical} as of English texts" if plan.workload.lexical else f"without {lexical}"
    said = [
        "memory: codes, reducer and metric; Python, its libraries and the encoder are extra",
        f"disk: the segments as if their texts were not compressed; {words}",
    ]
    milvus = _pays("Milvus", plan.milvus_from, "has too little memory")
    if plan.for_encoding is None:
        return [*said, "hours: unknown without --tokens-per-s", memory, milvus]
    limit = f"{plan.limit:g} hours"
    return [
        *said,
        "hours: encoding alone; fitting, coding and writing are extra",
        f"{memory}, {_machines(plan.for_encoding)} to encode it in {limit}",
        _pays("Ray", plan.ray_from, f"encodes for more than {limit}"),
        milvus,
    ]


def _machines(count: int) -> str:
    return "1 machine" if count == 1 else f"{count:,} machines"


def _pays(engine: str, count: int | None, why: str) -> str:
    if count is None:
        return f"{engine} pays: never"
    return f"{engine} pays: from {float(f'{count:.3g}'):,.0f} documents on, where one machine {why}"
