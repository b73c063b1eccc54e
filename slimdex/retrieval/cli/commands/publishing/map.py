"""`slimdex map`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from slimdex.indexes.execution.progress import listening

from ... import console
from ...execution import Index
from ...options.opening import Dir, Json, Where


def map_documents(
    index: Dir,
    *,
    out: Annotated[Path, "A new file: map.html."],
    where: Where = None,
    as_json: Json = False,
) -> None:
    """Write a page with a map of the documents, for a browser, without a network."""
    from slimdex.retrieval.mapping.document_map import write_map

    collection = Index(index).opened()
    with console.progress(), listening(note=console.note):
        made = write_map(collection, out, where=where)
    if as_json:
        console.print_json(asdict(made))
        return
    sample = f", a sample of {made.total:,}" if made.total > made.documents else ""
    console.line(f"{made.documents:,} documents{sample} in {len(made.clusters)} clusters: {out}")
