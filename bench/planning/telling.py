"""Telling: a plan in words and columns that a terminal of 80 has room for."""

from __future__ import annotations

from collections.abc import Sequence

from .checks import Check
from .plan import Figure, Plan

BYTES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
SECONDS = (("days", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3))
TIME, SPACE = "s", "bytes"
DAYS_FROM, HOURS_FROM = 3 * 86_400.0, 5400.0
"""Below these, a time is told in the next smaller unit."""


def told(value: float, unit: str) -> str:
    """A figure of three digits in the unit that people would take.

    >>> told(56e9, "bytes"), told(0.0042, "s"), told(7200, "s"), told(12.34, "/s")
    ('56 GB', '4.2 ms', '2 h', '12.3/s')
    >>> told(0, "s"), told(100_000, "s"), told(1_234_567, "s")
    ('0 ms', '27.8 h', '14.3 days')
    """
    if unit in ("", "/s"):
        return f"{_digits(value)}{unit}"
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
    many = "" if plan.machines == 1 else f"each of {plan.machines:,}"
    return ["", "one machine", *filter(None, [many]), "evidence", "off by"]


def lines(plan: Plan) -> list[list[str]]:
    """A line for each figure."""
    return [_line(figure, plan.machines > 1) for figure in plan.figures]


def _line(figure: Figure, several: bool) -> list[str]:
    values = [figure.one, figure.many] if several else [figure.one]
    evidence = figure.evidence
    rests = [evidence.said, f"{100 * evidence.error:.0f}%"] if evidence else ["given", ""]
    return [figure.name, *(told(value, figure.unit) for value in values), *rests]


def title(plan: Plan) -> str:
    """What is planned, in a sentence."""
    workload, machine = plan.asked.workload, plan.asked.machine
    lists = f" ({workload.lists:,} lists)" if workload.lists else ""
    return (
        f"{workload.documents:,} documents: {workload.resolved_kind}{lists}, k={workload.kept} of "
        f"{workload.dim}, {workload.rescored:,} candidates; machines of "
        f"{told(machine.ram, SPACE)} and {machine.cores} cores"
    )


def advice(plan: Plan) -> list[str]:
    """How many machines it takes, and from where on Ray and Milvus begin to pay."""
    asked = plan.asked
    load = f"{asked.qps:g} {'query' if asked.qps == 1 else 'queries'} a second"
    needed = (
        f"{_machines(plan.for_memory)} for its memory, {_machines(plan.for_load)} for "
        f"{load} too, {_machines(plan.for_build)} to build it in "
        f"{told(plan.build_s, TIME)}"
    )
    if plan.machines > 1:
        share = f"1/{plan.parts:,} of the documents" if plan.parts > 1 else "all documents"
        needed += f"; each of the {plan.machines:,} has {share}"
    build = plan.ray_from["build"]
    ray = _pays("Ray", [(build, f"a build takes more than {asked.hours:g} hours on one machine")])
    milvus = _pays(
        "Milvus",
        [
            (plan.milvus_from["memory"], "one machine's memory is too small"),
            (plan.milvus_from["load"], f"one machine can't answer {load}"),
        ],
    )
    return [needed, ray, milvus]


def _machines(count: int) -> str:
    return "1 machine" if count == 1 else f"{count:,} machines"


def _pays(engine: str, reasons: Sequence[tuple[int | None, str]]) -> str:
    parts = [f"from {count:,} documents on {why}" for count, why in reasons if count is not None]
    return f"{engine} pays: {'; '.join(parts) or 'never, by this model'}"


def measured_on(plan: Plan) -> list[str]:
    """The rows and the processors that times rest on."""
    found = dict[tuple[tuple[int, int] | None, tuple[str, ...]], list[str]]()
    for figure in plan.figures:
        one = figure.evidence
        if one and figure.unit == TIME and " in all" not in figure.name:
            found.setdefault((one.rows, one.processors), []).append(figure.name)
    return [
        f"{', '.join(names)}: {_rows(rows)}on {' and '.join(processors)}"
        for (rows, processors), names in found.items()
    ]


def _rows(rows: tuple[int, int] | None) -> str:
    return f"{rows[0]:,} to {rows[1]:,} rows " if rows else ""


def errors(checks: Sequence[Check]) -> list[str]:
    """By how much the model is off at most, at what it was fitted to and at what it was not."""
    said = []
    for fitted, of in ((True, "fitted to"), (False, "not fitted to")):
        worst = dict[str, float]()
        for check in checks:
            if check.fitted == fitted:
                worst[check.what] = max(worst.get(check.what, 0.0), check.error, key=abs)
        parts = ", ".join(f"{what.split(',')[0]} {100 * e:+.0f}%" for what, e in worst.items())
        said.append(f"off at most, of indexes that it was {of}: {parts}")
    return said
