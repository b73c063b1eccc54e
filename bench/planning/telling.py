"""Telling: a plan in words and columns that a terminal of 80 has room for."""

from __future__ import annotations

from .plan import Plan

BYTES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
SECONDS = (("days", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3))
TIME, SPACE = "s", "bytes"
DAYS_FROM, HOURS_FROM = 3 * 86_400.0, 5400.0
"""Below these, a time is told in the next smaller unit."""


def told(value: float, unit: str) -> str:
    """A figure of three digits in the unit that people would take.

    >>> told(56e9, "bytes"), told(0.0042, "s"), told(7200, "s")
    ('56 GB', '4.2 ms', '2 h')
    >>> told(0, "s"), told(100_000, "s"), told(1_234_567, "s")
    ('0 ms', '27.8 h', '14.3 days')
    """
    scales = BYTES if unit == SPACE else SECONDS
    least = {"days": DAYS_FROM, "h": HOURS_FROM}
    for name, size in scales:
        if value >= least.get(name, size) * 0.9995:
            return f"{_digits(value / size)} {name}"
    return f"{_digits(value / scales[-1][1])} {scales[-1][0]}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def heads(plan: Plan) -> list[str]:
    """Above the columns."""
    return ["", "one machine", *([] if plan.machines == 1 else [f"each of {plan.machines:,}"])]


def lines(plan: Plan) -> list[list[str]]:
    """A line for each figure."""
    several = plan.machines > 1
    return [
        [one.name, told(one.one, one.unit), *([told(one.many, one.unit)] if several else [])]
        for one in plan.figures
    ]


def title(plan: Plan) -> str:
    """What is planned, in a sentence."""
    workload, machine = plan.asked.workload, plan.asked.machine
    lists = f" ({workload.lists:,} lists)" if workload.lists else ""
    return (
        f"{workload.documents:,} documents: {workload.resolved_kind}{lists}, k={workload.kept} of "
        f"{workload.dim}; machines of {told(machine.ram, SPACE)} and {machine.cores} cores"
    )


def advice(plan: Plan, timed_on: str) -> list[str]:
    """What the figures leave out, how many machines it takes, and when Ray and Milvus pay."""
    hours, memory = f"{plan.asked.hours:g} hours on one machine", _machines(plan.for_memory)
    said = [
        "memory: codes, reducer and metric; Python, its libraries and the encoder come on top",
        f"seconds of fitting, coding and writing: fitted to {timed_on}; on other machines they "
        "may be several times as many",
    ]
    milvus = _pays("Milvus", plan.milvus_from, "one machine's memory is too small")
    if plan.for_build is None or plan.build_s is None:
        rate = "no time of encoding, which is most of a build: --tokens-per-s is not given"
        return [*said, rate, f"{memory} for its memory", milvus]
    build = f"{_machines(plan.for_build)} to build it in {told(plan.build_s, TIME)}"
    ray = _pays("Ray", plan.ray_from, f"a build takes more than {hours}")
    return [*said, f"{memory} for its memory, {build}", ray, milvus]


def _machines(count: int) -> str:
    return "1 machine" if count == 1 else f"{count:,} machines"


def _pays(engine: str, count: int | None, why: str) -> str:
    return f"{engine} pays: " + ("never" if count is None else f"from {count:,} documents on {why}")
