"""Tables of the similarity study, in the papers' own layout."""

from __future__ import annotations

from collections.abc import Sequence

from ...data.pairs import SEVEN
from ...rows import Row
from .table import Cell, Table, grouped

SU = ("STS-B", "STS12", "STS13", "STS14", "STS15", "STS16", "SICK-R")
"""Columns of Su et al.'s Tables 1 and 2."""
BY_SUBTASKS, HEAD = "average wmean", "average by subtasks"
"""Column of a row, and its name in tables."""


def study_tables(rows: Sequence[Row]) -> list[Table]:
    """For each model and language: poolings without a reducer and whitened, every set.

    Figures are over all pairs of a set; the last column is the average by the papers' weighting.
    """
    tables = []
    for (model, language), own in grouped(rows, "model", "language").items():
        sets = own[0]["sets"]
        averaged = [*(SU if set(sets) == set(SEVEN) else sets), "average"]
        averaged += [BY_SUBTASKS] if BY_SUBTASKS in own[0] else []
        plain = {row["pooling"]: row for row in own if not row["fit"]}
        lines = [
            [
                Cell(row_name(row), row_name(row)),
                *_cells(row, plain[row["pooling"]], averaged),
            ]
            for row in own
        ]
        heads = ["", *averaged[:-1], HEAD] if BY_SUBTASKS in averaged else ["", *averaged]
        tables.append(Table(f"{model}, {language}", "", heads, lines))
    return tables


def row_name(row: Row) -> str:
    """Name of a row: the pooling, and the reducer of its vectors."""
    name: str = row["pooling"]
    if row["fit"]:
        pair = (row["beta"], row["gamma"])
        if row["reducer"] == "flow":
            name += ", flow"
        else:
            name += ", whitened" if pair == (1.0, 1.0) else f", ({pair[0]:g}, {pair[1]:g})"
        name += f" on {row['fit']}" + (f", k={row['k']}" if row["k"] else "")
    return name


def _cells(row: Row, plain: Row, names: Sequence[str]) -> list[Cell]:
    """Figures, each with its change against no reducer."""
    cells = []
    for name in names:
        change = "" if row is plain else f" ({row[name] - plain[name]:+.2f})"
        cells.append(Cell(f"{row[name]:.2f}{change}", row[name]))
    return cells
