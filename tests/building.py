"""Collections made of sources, as `slimdex build` and `slimdex add` make indexes."""

from __future__ import annotations

from typing import Any

from slimdex.retrieval import building
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.ingest.addition_report import AdditionReport
from slimdex.retrieval.sources.source import Sources


def build(*arguments: Any, **options: Any) -> tuple[Collection, AdditionReport]:
    """The collection that `building.build` makes, open."""
    index, added = building.build(*arguments, **options)
    return Collection(index), added


def add(collection: Collection, sources: Sources) -> AdditionReport:
    return building.add(collection.index, sources)
