"""README: its figures."""

from __future__ import annotations

import tomllib

from slimdex.bench.reporting.findings import default_row, of_task, small_row
from slimdex.bench.rows import Row
from slimdex.indexes.options import CANDIDATES

from ..links import ROOT, Figure, rows

LARGEST = ("debian-desc", "all-MiniLM-L6-v2")
"""The largest collection of the table."""


def usual(task: tuple[str, str] = LARGEST) -> Row:
    """The default index of a set by a model."""
    found = default_row(of_task(rows("retrieval"), task))
    assert found is not None
    return found


def small() -> Row:
    """That of the largest collection with a quarter of the dimensions."""
    found = small_row(of_task(rows("retrieval"), LARGEST))
    assert found is not None
    return found


def newest_python() -> float:
    """The last of the Pythons that the project names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [each for each in project["classifiers"] if each.startswith("Programming Language")]
    return float(named[-1].rpartition(" ")[2])


FIGURES = [
    Figure("level with float32 down to 1/128 of its bytes", lambda: [small()["compression"]]),
    Figure("to 3.14; in a checkout", lambda: [newest_python()]),
    Figure("codes take 1/64 of the memory", lambda: [usual()["compression"]]),
    Figure("the best 200 are compared again", lambda: [CANDIDATES]),
]
