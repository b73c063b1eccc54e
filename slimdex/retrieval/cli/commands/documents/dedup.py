"""`slimdex dedup`."""

from __future__ import annotations

from typing import Annotated

from ... import console
from ...execution import Index
from ...options.opening import Dir, Json, WriteOptions


def dedup(
    index: Dir,
    *,
    min_score: Annotated[
        float, "COSINE", "Least cosine of the encoder's vectors; 1 for equal ones."
    ] = 0.95,
    delete: Annotated[bool, "Delete all documents of a group but the first added."] = False,
    writing: WriteOptions,
    as_json: Json = False,
) -> None:
    """List groups of near-duplicates; the first added of each is named first."""
    from slimdex.retrieval.operations.commands import Dedup

    found = Index(index, writing=writing).do(Dedup(min_score, delete))
    if as_json:
        console.print_json(found)
        return
    for group in found["groups"]:
        console.line(group["kept"], "bold")
        for other in group["others"]:
            console.line(f"  {other['score']:.4f}  {other['id']}")
    if not found["groups"]:
        console.line(f"no near-duplicates among {found['documents']:,} documents")
        return
    said = f"{found['duplicates']:,} near-duplicates of {len(found['groups']):,} documents"
    if delete:
        said += f": {found['deleted']:,} deleted, {found['documents']:,} left"
    console.line(said)
