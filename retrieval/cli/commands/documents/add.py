"""`slimdex add`."""

from __future__ import annotations

from ... import console
from ...execution import Index
from ...options.opening import Dir, Json, OpenOptions
from ...options.sources import Refit, SourceOptions, Vectors


def add(
    index: Dir,
    *,
    sources: SourceOptions,
    vectors: Vectors = None,
    refit: Refit = "auto",
    opening: OpenOptions,
    as_json: Json = False,
) -> None:
    """Add documents; one with an existing id replaces the older one."""
    from ....operations.commands import Add

    facts = Index(index, opening).do(Add(sources.asked(vectors), refit))
    console.show_index(facts, as_json)
