"""`slimdex bench report` and `slimdex bench tables`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from slimdex.indexes.errors import InputError

from ..options import Results
from ..rows import FOLDER, MEASURED


def report(
    results: Results = MEASURED,
    out: Annotated[Path, "Folder for the page and pictures."] = Path("bench-report"),
) -> None:
    """Write one self-contained page of pictures and tables, and the pictures as PNG."""
    from slimdex.retrieval.cli import console

    from ..reporting.experiments import read_all
    from ..reporting.page import write_report

    for path in write_report(out, read_all(results)):
        console.line(str(path))


def tables() -> None:
    """Write results into README.md and docs of this checkout, between marks, and pictures."""
    from slimdex.retrieval.cli import console

    from ..reporting.experiments import read_all
    from ..reporting.page import write_pictures
    from ..reporting.sections import marked, section, sections_with_rows, write_section

    with_rows = sections_with_rows(FOLDER)
    if not with_rows:
        raise InputError(f"{FOLDER}: no rows of results; expected retrieval-, peers- or others")
    for page, names in marked(Path()).items():
        written = [name for name in names if name in with_rows]
        changed = [name for name in written if write_section(page, name, section(name, FOLDER))]
        console.line(f"{page}: {', '.join(changed) or 'nothing'} changed")
    for picture in write_pictures(Path("docs/research"), read_all(FOLDER)):
        console.line(str(picture))
