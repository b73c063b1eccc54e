"""`slimdex add`."""

from __future__ import annotations

from ... import console
from ...execution import Index
from ...options.encoding import RayOptions
from ...options.opening import Dir, Json, OpenOptions, WriteOptions
from ...options.sources import Refit, SourceOptions, Vectors


def add(
    index: Dir,
    *,
    sources: SourceOptions,
    vectors: Vectors = None,
    refit: Refit = "auto",
    opening: OpenOptions,
    cluster: RayOptions,
    writing: WriteOptions,
    as_json: Json = False,
) -> None:
    """Add documents; one with an existing id replaces the older one."""
    from slimdex.retrieval.operations.commands import Add

    with cluster.started() as workers:
        command = Add(sources.asked(vectors), refit)
        facts = Index(index, opening, writing, workers).do(command)
    console.show_index(facts, as_json)
