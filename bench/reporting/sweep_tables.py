"""The table of `make sweep`: what each test did, over all its cases."""

from __future__ import annotations

from collections.abc import Sequence

from ..rows import Row
from .tables import Table, number, text

COUNTS = {
    "documents": "documents",
    "kills": "kills",
    "faults": "failed calls",
    "power_losses": "losses of power",
    "flips": "flipped bits",
    "searches": "searches",
    "changes": "changes",
}
"""Column -> head."""


def sweep(rows: Sequence[Row]) -> Table:
    """A line for each test, with the sums of its cases."""
    lines = []
    for what in dict.fromkeys(row["what"] for row in rows):
        cases = [row for row in rows if row["what"] == what]
        sums = (sum(row.get(name, 0) for row in cases) for name in COUNTS)
        name = what.removeprefix("test_").replace("_", " ")
        lines.append([text(name), *(number(total or None, ",d") for total in sums)])
    return Table("Sweep", "of tests that passed", ["test", *COUNTS.values()], lines)
