"""Commands that show what the others have left."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slimdex.indexes.errors import InputError

from ..rows import FOLDER, MEASURED
from .shared import Results

README_PICTURES = (
    "quality",
    "peers",
    "sts-k",
    "sts-layers",
    "sts-best",
    "sts-surface",
    "sts-reducers",
)


def report(
    results: Results = MEASURED,
    out: Annotated[Path, typer.Option(help="Folder for the page and pictures.")] = Path(
        "bench-report"
    ),
) -> None:
    """Write one self-contained page of charts and tables, and the charts as PNG."""
    from slimdex.retrieval.cli import console

    from ..reporting.experiments import read_all
    from ..reporting.page import write_report

    rows = read_all(results)
    with console.progress() as progress:
        paths = write_report(out, rows, progress)
    for path in paths:
        console.out.print(str(path), soft_wrap=True)


def tables(
    results: Annotated[Path, typer.Option(help="Folder with the rows of results.")] = FOLDER,
) -> None:
    """Write results into README.md and docs of this checkout, between marks, and pictures."""
    from slimdex.retrieval.cli import console

    from ..reporting.experiments import read_all
    from ..reporting.generated_tables import marked, section, sections_with_rows, write_section
    from ..reporting.page import write_pictures

    found = sections_with_rows(results)
    if not found:
        raise InputError(f"{results}: no rows of results; expected retrieval-, peers- or others")
    for page, names in marked(Path()).items():
        written = [name for name in names if name in found]
        changed = [name for name in written if write_section(page, name, section(name, results))]
        said = f"{page}: {', '.join(changed) or 'nothing'} changed"
        console.out.print(said, soft_wrap=True)
    for picture in write_pictures(Path("docs"), read_all(results), README_PICTURES):
        console.out.print(str(picture), soft_wrap=True)
