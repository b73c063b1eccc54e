"""`slimdex reduce`."""

from __future__ import annotations

from ... import console
from ...execution import Index
from ...options.encoding import RayOptions
from ...options.opening import Dir, Json, WriteOptions
from ...options.settings import UNCHANGED, SettingsOptions


def reduce(
    index: Dir,
    *,
    settings: SettingsOptions = UNCHANGED,
    writing: WriteOptions,
    cluster: RayOptions,
    as_json: Json = False,
) -> None:
    """Reduce the vectors again, without encoding. Options that are not given stay as they are."""
    from slimdex.retrieval.operations.commands import Reduce

    with cluster.started() as workers:
        facts = Index(index, writing=writing, workers=workers).do(Reduce(settings.changes()))
    console.show_index(facts, as_json)
