"""`slimdex migrate`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from slimdex.indexes.errors import InputError

from ... import console
from ...execution import Index
from ...options.encoding import EncoderOptions
from ...options.opening import Dir, Json, WriteOptions
from ...options.quality import Labels

if TYPE_CHECKING:
    from slimdex.retrieval.collection import Collection


@dataclass(frozen=True)
class MapOptions:
    """Comparison of the encoders, and the map."""

    queries: Annotated[Path | None, "Queries that have labels: any source with ids."] = None
    qrels: Labels = None
    sample: Annotated[
        int | None,
        "Documents to encode for the map, besides those that queries ask for; default: 5%, from "
        "2,000 to 10,000.",
    ] = None
    apply: Annotated[bool, "Map queries and new documents from now on."] = False


def migrate(
    index: Dir,
    *,
    encoder: EncoderOptions,
    mapping: MapOptions,
    go_on: Annotated[
        bool, "--continue", "Encode all documents again, by MODEL or that of the last run."
    ] = False,
    minutes: Annotated[
        float | None, "With --continue: end after so many minutes; the next run goes on."
    ] = None,
    undo: Annotated[bool, "Drop unfinished new vectors, or else the map."] = False,
    writing: WriteOptions,
    as_json: Json = False,
) -> None:
    """Measure what another encoder would give; change to it by a map, or by encoding again."""
    if [undo, go_on or encoder.model is not None].count(True) != 1:
        raise InputError("migrate: expected --model, --continue or --undo")
    if minutes is not None and not go_on:
        raise InputError("migrate: --minutes without --continue; expected both")
    if (go_on or undo) and mapping != MapOptions():
        raise InputError("migrate: --continue or --undo with options of the map; expected it alone")
    if (mapping.queries is None) != (mapping.qrels is None):
        raise InputError("migrate: --queries and --qrels; expected both or neither")
    opened = Index(index, writing=writing).opened()
    if undo:
        opened.undo_migration()
        console.line(f"{index}: the last step of the migration is undone")
    elif go_on:
        _encode_again(index, opened, encoder, minutes, as_json)
    else:
        _compare(index, opened, encoder, mapping, as_json)


def _compare(
    index: Path, opened: Collection, encoder: EncoderOptions, mapping: MapOptions, as_json: bool
) -> None:
    """Measure the options, and apply the map if it is asked for."""
    from slimdex.retrieval.quality.evaluation.labels import read_qrels
    from slimdex.retrieval.sources.source import read_pairs

    from ...reports import show_migration

    labels = read_qrels(mapping.qrels) if mapping.qrels else None
    asked = read_pairs(str(mapping.queries)) if mapping.queries else None
    with console.progress():
        found = opened.migrate(
            encoder.opened(),
            queries=asked,
            labels=labels,
            sample=mapping.sample,
            apply=mapping.apply,
        )
    if as_json:
        console.print_json(found.as_dict())
        return
    show_migration(found)
    console.line(
        f"{index} maps its queries now; --undo returns to its own encoder"
        if mapping.apply
        else "--apply maps the queries of the index; --continue encodes all documents again"
    )


def _encode_again(
    index: Path,
    opened: Collection,
    encoder: EncoderOptions,
    minutes: float | None,
    as_json: bool,
) -> None:
    with console.progress():
        given = None if encoder.model is None else encoder.opened()
        found = opened.reencode(given, minutes=minutes)
    for text in found.notes:
        console.note(text)
    text = f"{index} has the new encoder and its vectors"
    if not found.finished:
        text = f"{found.rows:,} of {found.total:,} encoded again; --continue goes on"
    console.show_result(asdict(found), text, as_json)
