"""`slimdex` without a command: the indexes here, or the first things to do."""

from __future__ import annotations

import os
from pathlib import Path
from time import time

from slimdex.errors import InputError, SlimdexError
from slimdex.system.index_names import MANIFEST, is_index

from . import console
from .default_index import default_index

FIRST_STEPS = """\
Semantic search in a fraction of the memory. No index is here yet; to begin:

  slimdex build FOLDER  Index its files; then: slimdex search 'your question'
  slimdex bench         Measure quality against memory and time.
  In Python:            from slimdex import Collection
                        notes = Collection.open_or_create("notes.index")
                        notes.add([{"id": "1", "text": "The boiler leaks."}])
                        print(notes.search("heating"))

`slimdex demo` shows it on Python's docstrings; `slimdex --help` lists all."""
AGES = {"day": 86_400, "hour": 3_600, "minute": 60}
"""Units of an index's age, in seconds."""


def overview() -> None:
    """Show the indexes of this folder and the default one; without any, what to do first."""
    default = default_index()
    names = sorted(filter(is_index, [".", *os.listdir()]))
    paths = [Path(name) for name in names]
    if default is not None and default.absolute() not in [path.absolute() for path in paths]:
        paths.append(default)
    for path in paths:
        _show(path)
    if not paths:
        for line in FIRST_STEPS.split("\n"):
            console.line(line)


def _show(path: Path) -> None:
    """Print how many documents an index has, how fresh they are, and how to search it."""
    # Loads numpy and FAISS, for which the first steps need not wait.
    from ..sources.source_request import have_changed, last_sources
    from ..store.manifest import Manifest

    console.line(str(path), style="bold")
    try:
        manifest = Manifest.read(path)
    except (OSError, SlimdexError) as error:
        console.line(f"  {error}")
        return
    if manifest.state.settings is None:
        console.line("  no documents yet")
        return

    # `changed` is None if it can't be found out.
    try:
        changed = have_changed(path, last_sources(path, manifest.state.origins))
    except InputError:  # of another machine, or of standard input
        changed = None

    # Count the documents in the files, without the deleted ones.
    rows = manifest.document_rows
    count = rows.number_before(manifest.state.rows) - rows.number(manifest.deleted)
    age = _ago(time() - (path / MANIFEST).stat().st_mtime)
    summary = f"{console.documents(count)}, changed {age}"
    if changed is not None:
        summary += f"; its sources have {'' if changed else 'not '}changed since"
    console.line(f"  {summary}")
    if changed:
        console.line(f"  {console.shell_command('sync', console.from_here(path))}")
    console.line(f"  {console.search_command(path)}")


def _ago(seconds: float) -> str:
    """Format an age.

    >>> _ago(20), _ago(3700), _ago(200_000)
    ('just now', '1 hour ago', '2 days ago')
    """
    for unit, length in AGES.items():
        number = int(seconds // length)
        if number > 0:
            return f"{number:,} {unit}{'s' if number > 1 else ''} ago"
    return "just now"
