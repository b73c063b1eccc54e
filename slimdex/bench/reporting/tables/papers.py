"""Published tables and figures, with our rows below them; their facts are in published.toml."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...rows import Row
from .similarity import row_name
from .table import Cell, Table

FILE = Path(__file__).parent / "published.toml"
PROTOCOLS = ("all", "mean", "wmean")
"""Names of `data.pairs.PROTOCOLS` in published.toml."""
OURS = "↳ "
"""Mark of the lines that are ours."""
OF_REDUCTION = {
    "Pearson of similarities": "similarity_pearson",
    "MRR x 100": "scifact mrr@10",
    "nDCG, % of uncut": "scifact ndcg@10",
}
"""Columns of the blog's table -> ours."""


@dataclass(frozen=True)
class System:
    """A row of a published table.

    Attributes
    ----------
    figures : in the order of the table's columns, NaN if there is none.
    ours : columns that identify our row beside it, and its experiment; empty if there is none.
    protocol : of the evaluation, one of `PROTOCOLS`.
    """

    name: str
    figures: Sequence[float]
    ours: Mapping[str, Any]
    protocol: str


@dataclass(frozen=True)
class PublishedTable:
    """A published table, and reasons for different figures of ours."""

    source: str
    label: str
    caption: str
    columns: Sequence[str]
    why: str
    systems: Sequence[System]


@dataclass(frozen=True)
class PublishedFigure:
    """A published figure, and our counterpart."""

    source: str
    label: str
    caption: str
    ours: str
    picture: str = ""


@dataclass(frozen=True)
class Published:
    """All published results."""

    sources: Mapping[str, str]
    tables: Sequence[PublishedTable]
    figures: Sequence[PublishedFigure]


@cache
def published() -> Published:
    """Read published.toml."""
    document = tomllib.loads(FILE.read_text(encoding="utf-8"))
    tables = []
    for table in document["table"]:
        usual = {"ours": {}, "protocol": table.pop("protocol", PROTOCOLS[0])}
        systems = [System(**(usual | line)) for line in table.pop("row")]
        tables.append(PublishedTable(**table, systems=systems))
    return Published(
        document["sources"], tables, [PublishedFigure(**f) for f in document["figure"]]
    )


def our_row(system: System, rows: Mapping[str, Sequence[Row]]) -> Row | None:
    """Find the row of results beside a published one, if it was measured.

    `rows` maps experiments to their rows.
    """
    wanted = dict(system.ours)
    experiment = wanted.pop("experiment", "sts")
    if not wanted:
        return None
    if wanted.get("k") == 0:  # TOML has no null
        wanted["k"] = None
    own = rows.get(experiment, ())
    return next((r for r in own if all(r.get(name) == v for name, v in wanted.items())), None)


def compared(table: PublishedTable, rows: Mapping[str, Sequence[Row]]) -> Table:
    """A published table, with ours below each line that we have measured."""
    lines = []
    for system in table.systems:
        lines.append([_text(system.name), *map(_figure, system.figures)])
        ours = our_row(system, rows)
        if ours is not None:
            figures = [_ours(ours, column, rows, system.protocol) for column in table.columns]
            lines.append([_text(OURS + _name(ours)), *map(_figure, figures)])
    return Table(f"{table.label}: {table.caption}", "", ["", *table.columns], lines)


def paper_paragraphs(rows: Mapping[str, Sequence[Row]]) -> list[str]:
    """All sources, each with its tables and figures."""
    found = published()
    parts = []
    for source, title in found.sources.items():
        parts.append(f"## {title}")
        for table in (table for table in found.tables if table.source == source):
            parts += [f"### {table.label}: {table.caption}", table.why]
            parts.append(compared(table, rows).markdown())
        for figure in (figure for figure in found.figures if figure.source == source):
            parts += [f"### {figure.label}: {figure.caption}", figure.ours]
            if figure.picture:
                parts.append(f"![{figure.caption}, ours]({figure.picture})")
    return parts


def correlation(row: Row, name: str, protocol: str) -> float:
    """A set's correlation, or the average, by a protocol; over all pairs if it has no other.

    >>> correlation({"STS12": 60.0, "STS12 mean": 62.5}, "STS12", "mean")
    62.5
    """
    column = f"{name} {protocol}"
    return float(row[column if column in row else name])


def _ours(row: Row, column: str, rows: Mapping[str, Sequence[Row]], protocol: str) -> float:
    name = OF_REDUCTION.get(column, column)
    value = correlation(row, name, protocol) if name in row else math.nan
    if name == OF_REDUCTION["nDCG, % of uncut"]:
        uncut = next(
            r for r in rows["reduction"] if r["model"] == row["model"] and r["reducer"] == "none"
        )
        return 100 * value / float(uncut[name])
    return value


def _name(row: Row) -> str:
    if "fit" in row:
        return f"{row['model']}, {row_name(row)}"
    return f"{row['model']}, {row['reducer']}, k={row['k']}"


def _text(text: str) -> Cell:
    return Cell(text, text)


def _figure(value: float) -> Cell:
    return Cell("", "") if math.isnan(value) else Cell(f"{value:.2f}", value)
