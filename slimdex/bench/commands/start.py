"""`slimdex bench start`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from ..options import Out, Quick
from ..rows import MEASURED

QUICK_DOCUMENTS = 300


def start(
    install: Annotated[
        bool, "--install", "Install each library into a new environment, and time that too."
    ] = False,
    out: Out = MEASURED,
    quick: Quick = False,
) -> None:
    """Time commands from their start to their answer, beside other libraries doing the same."""
    from slimdex.retrieval.cli import console

    from ..experiments.start_study import (
        PACKAGES,
        QUICK_ROUNDS,
        ROUNDS,
        Job,
        measure_start,
    )
    from ..machine import not_installed, provenance
    from ..rows import ResultsFile
    from ..runner import note_absent, tell

    if not install:
        note_absent([*not_installed(PACKAGES)])
    packages = {"duckdb", "openvino", *(each for own in PACKAGES.values() for each in own)}
    about = provenance(sorted(packages))
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, console.progress():
        job = Job.of_docstrings(Path(folder), QUICK_DOCUMENTS if quick else None)
        results = ResultsFile(out / f"start-{job.name}.jsonl")
        rounds = QUICK_ROUNDS if quick else ROUNDS
        failed = measure_start(job, rounds, install=install, results=results, about=about)
    for line in failed:
        console.note(line)
    tell(results, "start")
