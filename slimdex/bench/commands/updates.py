"""`slimdex bench updates`."""

from __future__ import annotations

import math
from typing import Annotated

from slimdex.indexes.errors import InputError

from ..options import Out, chosen
from ..rows import MEASURED


def updates(
    *,
    rows: Annotated[int, "Documents of each store at first."] = 10_000,
    seconds: Annotated[float, "How long the processes write and search."] = 10,
    only: Annotated[str, "Stores to measure, separated by commas."] = "",
    out: Out = MEASURED,
) -> None:
    """Measure 1, 2 and 4 processes that add documents to one store while another searches it.

    Other stores require the extra `peers`.
    """
    from slimdex.retrieval.cli import console

    from ..engines.changed_stores import STORES, missing_stores
    from ..experiments.update_study import measure_updates
    from ..machine import provenance
    from ..rows import ResultsFile
    from ..runner import note_absent, tell

    if rows < 1:
        raise InputError(f"--rows {rows}; expected 1 or more")
    if not 0 < seconds < math.inf:  # also refuses NaN
        raise InputError(f"--seconds {seconds:g}; expected more than 0")
    names, missing = chosen("--only", only, list(STORES)), missing_stores()
    note_absent([name for name in names if name in missing])
    names = [name for name in names if name not in missing]
    about = provenance(["duckdb", *(package for _, own in STORES.values() for package in own)])
    results = ResultsFile(out / "processes-random.jsonl")
    with console.progress():
        measure_updates(names, rows, seconds, results, about)
    tell(results, "processes")
