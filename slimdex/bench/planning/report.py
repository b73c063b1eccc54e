"""A plan in sentences and columns, for a terminal of 80 characters."""

from __future__ import annotations

from .plan import Plan
from .workload import Workload

UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def told(size: float) -> str:
    """Format bytes in three digits.

    >>> told(56e9), told(999.6e6), told(1234)
    ('56 GB', '1 GB', '1.23 kB')
    """
    unit, scale = next((each for each in UNITS if size >= each[1] * 0.9995), UNITS[-1])
    return f"{_digits(size / scale)} {unit}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def title(plan: Plan) -> str:
    """Describe the workload and the machines."""
    whole = plan.workload
    lists = f" ({whole.lists:,} lists)" if whole.lists else ""
    return (
        f"{whole.documents:,} documents: {whole.resolved_kind}{lists}, k={whole.kept} of "
        f"{whole.dim}; machines of {told(plan.ram)}"
    )


def heads(plan: Plan) -> list[str]:
    """Heads of the columns."""
    return ["", "one machine", *([] if plan.machines == 1 else [f"each of {plan.machines:,}"])]


def lines(plan: Plan) -> list[list[str]]:
    """A line for each figure."""
    columns = [_column(plan, plan.workload)]
    if plan.machines > 1:
        columns.append(_column(plan, plan.part))
    return [[name, *(column[name] for column in columns)] for name in columns[0]]


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
        f"disk: the catalog as if its texts were not compressed; {words}",
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
