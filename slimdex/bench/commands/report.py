"""`slimdex bench report` and `slimdex bench tables`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slimdex.indexes.errors import InputError

from ..options import Results
from ..rows import FOLDER, MEASURED

PICTURES = ("quality", "peers", "sts-k", "sts-layers", "sts-best", "sts-surface", "sts-reducers")
"""Pictures shown in pages of docs."""


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


def tables(results: Annotated[Path, "Folder with the rows of results."] = FOLDER) -> None:
    """Write results into README.md and docs of this checkout, between marks, and pictures."""
    from slimdex.retrieval.cli import console

    from ..reporting.experiments import read_all
    from ..reporting.page import write_pictures
    from ..reporting.sections import marked, section, sections_with_rows, write_section

    found = sections_with_rows(results)
    if not found:
        raise InputError(f"{results}: no rows of results; expected retrieval-, peers- or others")
    for page, names in marked(Path()).items():
        written = [name for name in names if name in found]
        changed = [name for name in written if write_section(page, name, section(name, results))]
        said = f"{page}: {', '.join(changed) or 'nothing'} changed"
        console.line(said)
    for picture in write_pictures(Path("docs/research"), read_all(results), PICTURES):
        console.line(str(picture))
