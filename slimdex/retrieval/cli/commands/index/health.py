"""`slimdex health`."""

from __future__ import annotations

from typing import Annotated

from ... import console
from ...execution import Index
from ...options.opening import Dir, Json, OpenOptions


def health(
    index: Dir,
    *,
    sample: Annotated[int, "Queries made of the documents: more give a closer bound."] = 2000,
    opening: OpenOptions,
    as_json: Json = False,
) -> None:
    """Measure how far the documents are from those the index was fitted on, and what that costs."""
    from slimdex.retrieval.operations.commands import Health

    from ...reports import health_lines

    report = Index(index, opening).do(Health(sample))
    noun = report.pop("noun")
    if as_json:
        console.print_json(report)
        return
    console.show_pairs(health_lines(report, noun))
    for line in report["advice"]:
        console.note(line)
