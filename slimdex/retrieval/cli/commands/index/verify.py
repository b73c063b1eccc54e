"""`slimdex verify`: an index, or what was pushed of it into Milvus."""

from __future__ import annotations

from typing import Annotated

from ... import console
from ...errors import BAD_INPUT, say
from ...options.milvus import MilvusOptions
from ...options.opening import Dir, Json


def verify(
    index: Dir,
    *,
    milvus: Annotated[
        str | None, "URI", "Compare the index with what was pushed there instead."
    ] = None,
    server: MilvusOptions,
    as_json: Json = False,
) -> None:
    """Check all files of an index and all counts; exit with code 2 if anything is wrong."""
    if milvus is None:
        from slimdex.retrieval.ingest.repair import verify as find_faults

        faults = find_faults(index)
        sound = f"{index}: all files and numbers are right"
    else:
        from slimdex.retrieval.cluster.milvus_verification import pushed_faults

        with console.progress():
            faults = pushed_faults(
                index, milvus, server.name, server.token, insecure=server.insecure
            )
        sound = f"{milvus}: matches {index}"
    if as_json:
        console.print_json({"faults": faults})
    elif not faults:
        console.line(sound)
    else:
        for fault in faults:
            say(fault)
    if faults:
        raise SystemExit(BAD_INPUT)
