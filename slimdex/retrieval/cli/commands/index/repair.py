"""`slimdex repair`."""

from __future__ import annotations

from typing import Annotated

from ... import console
from ...options.opening import Dir, Json, WriteOptions


def repair(
    index: Dir,
    *,
    untrusted: Annotated[
        bool, "Rebuild all of it without reading it first: for an index that others made."
    ] = False,
    encode: Annotated[bool, "Encode documents again whose vectors are lost or damaged."] = False,
    model: Annotated[
        str | None, "Record a new location of the encoder's model: a folder, a file or a hub id."
    ] = None,
    writing: WriteOptions,
    as_json: Json = False,
) -> None:
    """Rebuild what is derived from documents and vectors, where it is damaged."""
    from slimdex.retrieval.ingest.repair import repair as mend

    with console.progress():
        mended = mend(
            index,
            untrusted=untrusted,
            encode=encode,
            model=model,
            wait=writing.wait,
            shared_filesystem=writing.shared_filesystem,
        )
    if as_json:
        console.print_json({"mended": mended})
    else:
        for fault in mended:
            console.line(f"was: {fault}")
        console.line(f"{index}: " + ("rebuilt" if mended else "nothing to repair"))
