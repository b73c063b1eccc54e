"""`slimdex push`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from slimdex.indexes.execution.progress import listening

from ... import console
from ...execution import Index
from ...options.milvus import MilvusOptions
from ...options.opening import Dir, Json


def push(
    index: Dir,
    *,
    milvus: Annotated[
        str, "URI", "http://HOST:19530 of a server, or a file NAME.db for the embedded server."
    ],
    kind: Annotated[
        str | None,
        "Milvus' index kind: FLAT, IVF_SQ8, IVF_PQ, HNSW or another that its version has; "
        "default: that of the last push, or IVF_SQ8.",
    ] = None,
    rescore: Annotated[
        str,
        "here|there|off",
        "Where candidates are rescored with full vectors: here, from this folder; there, "
        "in Milvus, which then stores them, too; or off.",
    ] = "here",
    leave_out: Annotated[
        list[str] | None, "COLUMN", "A column not to push; can be repeated."
    ] = None,
    server: MilvusOptions,
    as_json: Json = False,
) -> None:
    """Bring Milvus up to date with an index: send what is new or changed, remove what is gone."""
    from slimdex.retrieval.cluster.milvus_push import PushOptions
    from slimdex.retrieval.cluster.milvus_push import push as push_rows
    from slimdex.retrieval.cluster.milvus_server import Server

    with (
        Index(index).opened() as collection,
        Server(milvus, server.token, insecure=server.insecure) as connected,
        console.progress(),
        listening(note=console.note),
    ):
        options = PushOptions(kind, rescore, leave_out or ())
        done = push_rows(collection, connected, server.name, options)
    if as_json:
        console.print_json(asdict(done))
        return
    console.line(
        f"{done.sent:,} sent, {done.removed:,} removed, {done.rows:,} in {done.collection}"
    )
