"""Size tables: what indexes take by their rows, and how the model of `slimdex plan` meets them."""

from __future__ import annotations

from collections.abc import Sequence

from ..planning.checks import Check
from ..planning.laws import Law
from ..planning.model import Model
from ..planning.observations import DISK
from ..planning.workload import TERMS
from ..rows import Row
from .tables import Cell, Table, number, text


def sizes(rows: Sequence[Row]) -> list[Table]:
    """Each index that was measured, smaller ones first."""
    heads = ["rows", "dim", "kind", "bytes a row", "process grew, MB", "disk, MB", "candidates"]
    heads += ["agreement@10", "to rows, ms", "to documents, ms", "fit, s", "code, s", "write, s"]
    lines = [_line(row) for row in sorted(rows, key=lambda row: (row["rows"], row["dim"]))]
    return [Table("Sizes", "one thread; seconds of processor time", heads, lines)] if lines else []


def _line(row: Row) -> list[Cell]:
    return [
        number(row["rows"], ",d"),
        number(row["dim"], "d"),
        text(row["kind"]),
        number(row["ram_row_bytes"], ".0f"),
        number(row["memory_bytes"] / 1e6, ",.0f"),
        number(sum(row[name] for name in DISK) / 1e6, ",.0f"),
        number(row["candidates"], ",d"),
        number(row["recall@10_total"], ".3f"),
        number(row["p50_ms_search_cpu"], ".2f"),
        number(row["p50_ms_hits_cpu"], ".2f"),
        *(number(row[f"{part}_cpu_s"], ",.1f") for part in ("fit", "index", "write")),
    ]


def laws(model: Model) -> Table:
    """Each law with its coefficients, and by how much it is off at most where it was fitted."""
    lines = [
        [
            text(law.name),
            text(unit),
            text(formula(law)),
            number(len(law.seen), "d"),
            number(100 * max(abs(law.error(one)) for one in law.seen), ".0f"),
        ]
        for unit, law in model.laws()
    ]
    heads = ["figure", "unit", "law", "fitted to so many", "off by at most"]
    return Table("Laws", "off by: percent", heads, lines)


def formula(law: Law) -> str:
    """A law as people read it; a term whose coefficient is zero plays no part.

    >>> formula(Law("time", {"once": 12_345.6, "rows": 0.000012, "text": 0.0}, ()))
    '12,346 + 1.2e-05 documents'
    """
    parts = []
    for name, each in law.coefficients.items():
        shown = f"{each:,.0f}" if each >= 1000 else f"{each:.3g}"
        if each:
            parts.append(shown if name == "once" else f"{shown} {TERMS[name]}")
    return " + ".join(parts)


def met(checks: Sequence[Check]) -> Table:
    """By how much the model is above what was measured, figure by figure."""
    heads = [
        "of",
        "rows",
        "dim",
        "kind",
        "figure",
        "model",
        "measured",
        "off by",
        "fitted",
    ]
    lines = [
        [
            text(check.of),
            number(check.rows, ",d"),
            number(check.dim, "d"),
            text(check.kind),
            text(check.what),
            number(check.modelled, ",.3g" if check.modelled < 100 else ",.0f"),
            number(check.measured, ",.3g" if check.measured < 100 else ",.0f"),
            number(100 * check.error, "+.0f"),
            text("yes" if check.fitted else "no"),
        ]
        for check in checks
    ]
    return Table("The model and what was measured", "off by: percent", heads, lines)
