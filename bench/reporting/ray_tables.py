"""Ray tables: builds by workers beside one process, and whether the indexes are the same."""

from __future__ import annotations

from collections.abc import Sequence

from ..rows import Row
from .tables import Cell, Table, number, text

HEADS = ["workers", "workers killed", "builds killed", "time", "files that differ"]
HEADS += ["reducer, largest difference", "same answers"]


def builds(rows: Sequence[Row]) -> list[Table]:
    """A table for each source and model, in the order of its rows."""
    names = dict.fromkeys((row["source"], row["model"], row["documents"]) for row in rows)
    return [
        Table(
            f"{source}, {model}",
            f"{documents:,} documents; time by that of one process without Ray, in one run",
            HEADS,
            [_line(row) for row in rows if (row["source"], row["model"]) == (source, model)],
        )
        for source, model, documents in names
    ]


def _line(row: Row) -> list[Cell]:
    return [
        number(row["workers"], "d") if row["workers"] else text("none"),
        number(row["worker_kills"], "d"),
        number(row["builder_kills"], "d"),
        number(row["ratio"], ".2f"),
        number(row["files_differing"], "d"),
        number(row["reducer_difference"], ".0e"),
        number(row["same_answers"], ".1%"),
    ]
