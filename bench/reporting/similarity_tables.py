"""Tables of the similarity study, in the papers' own layout, and of the reduction experiment."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.pairs import SEVEN
from ..rows import Row
from .tables import Cell, Table

SU = ("STS-B", "STS12", "STS13", "STS14", "STS15", "STS16", "SICK-R")
"""The columns of Su et al.'s Tables 1 and 2."""
BY_SUBTASKS, HEAD = "average wmean", "average by subtasks"
"""Column of a row, and what a table calls it."""
ENTAILMENT_COLUMNS = {"accuracy": 1, "threshold": 2, "accuracy_fixed": 1}
"""Columns of a row -> digits that are shown."""


def study_tables(rows: Sequence[Row]) -> list[Table]:
    """For each model and language: poolings without a reducer and whitened, every set.

    Figures are over all pairs of a set; the last column is the average by the papers' weighting.
    """
    tables = []
    for model, language in dict.fromkeys((row["model"], row["language"]) for row in rows):
        own = [row for row in rows if (row["model"], row["language"]) == (model, language)]
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
            if _is_shown(row) and row["pooling"] in plain
        ]
        heads = ["", *averaged[:-1], HEAD] if BY_SUBTASKS in averaged else ["", *averaged]
        tables.append(Table(f"{model}, {language}", "", heads, lines))
    return tables


def entailment_tables(rows: Sequence[Row]) -> list[Table]:
    """For each model: accuracy of a threshold on the cosine, poolings beside each other."""
    tables = []
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
        note = f"{own[0]['pairs']:,} pairs; {own[0]['accuracy_majority']:.1f}% are not entailed"
        heads = ["", "accuracy", "threshold", "accuracy at 0.5"]
        lines = [
            [
                Cell(row_name(row), row_name(row)),
                *(Cell(f"{row[c]:.{d}f}", row[c]) for c, d in ENTAILMENT_COLUMNS.items()),
            ]
            for row in own
        ]
        tables.append(Table(model, note, heads, lines))
    return tables


def reduction_tables(rows: Sequence[Row]) -> list[Table]:
    """For each model: every reducer at a quarter of the dimensions, and none."""
    tables = []
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
        searched = [name.removesuffix(" ndcg@10") for name in own[0] if name.endswith(" ndcg@10")]
        heads = ["", "k", "Pearson of similarities", "STS Pearson", "STS Spearman"]
        heads += [f"{name}, {m}" for name in searched for m in ("MRR@10", "nDCG@10")]
        lines = [_reduction(row, searched) for row in own]
        tables.append(Table(f"{model}, {own[0]['d']} dimensions", "", heads, lines))
    return tables


def _is_shown(row: Row) -> bool:
    """Rows of the papers' tables: no reducer, flow, whitening whole and cut, and the rotation."""
    if row["layers"] not in ([-1], [1, -1]):
        return False
    if row["reducer"] in ("none", "flow"):
        return True
    half, third = (round(row["width"] / part / 4) * 4 for part in (2, 3))
    shown = [(1.0, 1.0, None), (1.0, 1.0, third), (0.0, 0.0, half)]
    return row["reducer"] == "whitening" and (row["beta"], row["gamma"], row["k"]) in shown


def row_name(row: Row) -> str:
    """The pooling and what is done to its vectors."""
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


def _reduction(row: Row, searched: Sequence[str]) -> list[Cell]:
    figures = [row["similarity_pearson"], row["sts_pearson"], row["sts_spearman"]]
    figures += [row[f"{name} {m}"] for name in searched for m in ("mrr@10", "ndcg@10")]
    cells = [Cell(row["reducer"], row["reducer"]), Cell(str(row["k"]), row["k"])]
    return cells + [Cell(f"{figure:.2f}", figure) for figure in figures]
