"""`slimdex lexical`."""

from __future__ import annotations

from typing import Annotated

from ... import console
from ...execution import Index
from ...options.opening import Dir, Json, WriteOptions


def lexical(
    index: Dir,
    *,
    off: Annotated[bool, "Remove it; searches are by meaning alone."] = False,
    writing: WriteOptions,
    as_json: Json = False,
) -> None:
    """Build the lexical index (BM25) of an index without one; changes keep it up to date."""
    from slimdex.retrieval.operations.commands import IndexWords

    found = Index(index, writing=writing).do(IndexWords(not off))
    if as_json:
        console.print_json(found)
    elif found["lexical"] is None:
        console.line("lexical index removed")
    else:
        each = found["lexical"]["disk_bytes_per_vector"]
        console.line(f"words of {found['documents']:,} documents, {each:,.0f} bytes a vector")
