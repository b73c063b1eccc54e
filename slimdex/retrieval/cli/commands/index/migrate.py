"""`slimdex migrate`."""

from __future__ import annotations

from dataclasses import asdict
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


def migrate(
    index: Dir,
    *,
    encoder: EncoderOptions,
    queries: Annotated[Path | None, "Queries that have labels: any source with ids."] = None,
    qrels: Labels = None,
    sample: Annotated[
        int | None,
        "Documents to encode for the comparison, besides those that queries ask for; default: 5%, "
        "from 2,000 to 10,000.",
    ] = None,
    go_on: Annotated[
        bool, "--continue", "Encode all documents again, by MODEL or that of the last run."
    ] = False,
    minutes: Annotated[
        float | None, "With --continue: end after so many minutes; the next run goes on."
    ] = None,
    undo: Annotated[bool, "Drop unfinished new vectors."] = False,
    writing: WriteOptions,
    as_json: Json = False,
) -> None:
    """Measure what another encoder would give; change to it by encoding all documents again."""
    if [undo, go_on or encoder.model is not None].count(True) != 1:
        raise InputError("migrate: expected --model, --continue or --undo")
    if minutes is not None and not go_on:
        raise InputError("migrate: --minutes without --continue; expected both")
    if (go_on or undo) and (queries or qrels or sample is not None):
        raise InputError(
            "migrate: --continue or --undo with options of the comparison; expected it alone"
        )
    if (queries is None) != (qrels is None):
        raise InputError("migrate: --queries and --qrels; expected both or neither")
    opened = Index(index, writing=writing).opened()
    if undo:
        opened.undo_migration()
        console.line(f"{index}: the unfinished new vectors are dropped")
    elif go_on:
        _encode_again(index, opened, encoder, minutes, as_json)
    else:
        _compare(opened, encoder, queries, qrels, sample, as_json)


def _compare(
    opened: Collection,
    encoder: EncoderOptions,
    queries: Path | None,
    qrels: Path | None,
    sample: int | None,
    as_json: bool,
) -> None:
    from slimdex.retrieval.quality.evaluation.labels import read_qrels
    from slimdex.retrieval.sources.source import read_pairs

    from ...reports import show_migration

    labels = read_qrels(qrels) if qrels else None
    asked = read_pairs(str(queries)) if queries else None
    with console.progress():
        found = opened.migrate(encoder.opened(), queries=asked, labels=labels, sample=sample)
    if as_json:
        console.print_json(found.as_dict())
        return
    show_migration(found)
    console.line("--continue encodes all documents again")


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
