"""`slimdex bench report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..options import Results
from ..rows import MEASURED


def report(
    results: Results = MEASURED,
    out: Annotated[Path, "Folder for the page and pictures."] = Path("bench-report"),
) -> None:
    """Write one self-contained page of charts and tables, and the charts as PNG."""
    from slimdex.retrieval.cli import console

    from ..reporting.experiments import read_all
    from ..reporting.page import write_report

    rows = read_all(results)
    with console.progress():
        paths = write_report(out, rows)
    for path in paths:
        console.line(str(path))
