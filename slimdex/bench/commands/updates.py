"""`slimdex bench updates`."""

from __future__ import annotations

from ..options import Out
from ..rows import MEASURED

DOCUMENTS, SECONDS = 10_000, 10.0
"""Documents of each store at first, and how long the processes write and search."""


def updates(out: Out = MEASURED) -> None:
    """Measure 1, 2 and 4 processes that add documents to one store while another searches it.

    Other stores require the extra `peers`.
    """
    from slimdex.retrieval.cli import console

    from ..engines.engine import CHANGES
    from ..engines.registry import missing, names_of, packages_of
    from ..experiments.update_study import measure_updates
    from ..machine import provenance
    from ..rows import ResultsFile
    from ..runner import note_absent, tell

    absent, every = missing(CHANGES), names_of(CHANGES)
    note_absent([*absent])
    names = [name for name in every if name not in absent]
    about = provenance(["duckdb", *packages_of(every)])
    results = ResultsFile(out / "processes-random.jsonl")
    with console.progress():
        measure_updates(names, DOCUMENTS, SECONDS, results, about)
    tell(results, "processes")
