"""Change how an index is made: `slimdex reduce`, `lexical` and `tune`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from slimdex.indexes.errors import InputError

from ... import console
from ...execution import Index
from ...options.encoding import RayOptions
from ...options.opening import Dir, Json, OpenOptions, WriteOptions
from ...options.quality import Labels, TargetOptions
from ...options.settings import UNCHANGED, SettingsOptions

if TYPE_CHECKING:
    from slimdex.retrieval.collection import Collection


def reduce(
    index: Dir,
    *,
    settings: SettingsOptions = UNCHANGED,
    writing: WriteOptions,
    cluster: RayOptions,
    as_json: Json = False,
) -> None:
    """Reduce the vectors again, without encoding. Options that are not given stay as they are."""
    from slimdex.retrieval import commands

    with cluster.started() as workers:
        command = partial(commands.reduce, settings=settings.changes())
        facts = Index(index, writing=writing, workers=workers).do(command)
    console.show_index(facts, as_json)


def lexical(
    index: Dir,
    *,
    off: Annotated[bool, "Remove it; searches are by meaning alone."] = False,
    writing: WriteOptions,
    as_json: Json = False,
) -> None:
    """Build the lexical index (BM25) of an index without one; changes keep it up to date."""

    def indexed(collection: Collection) -> dict[str, Any]:
        collection.index_lexical(not off)
        return {"documents": len(collection), "lexical": collection.info()["lexical"]}

    done = Index(index, writing=writing).do(indexed)
    text = "lexical index removed"
    if (words := done["lexical"]) is not None:
        each = words["disk_bytes_per_vector"]
        text = f"words of {done['documents']:,} documents, {each:,.0f} bytes a vector"
    console.show_result(done, text, as_json)


def tune(
    index: Dir,
    *,
    target: TargetOptions,
    queries: Annotated[
        Path | None, "Real queries, as from a log: .txt with one per line, or any source."
    ] = None,
    qrels: Labels = None,
    apply: Annotated[bool, "Apply the settings to the index, and record what is proved."] = False,
    opening: OpenOptions,
    writing: WriteOptions,
    as_json: Json = False,
) -> None:
    """Find the settings of least memory that agree with exact search, and prove that they do."""
    from slimdex.retrieval.quality.evaluation.labels import read_qrels
    from slimdex.retrieval.sources.source import read_pairs

    from ...reports import show_tuning

    if qrels is not None and queries is None:
        raise InputError("tune: --qrels without --queries; expected both")
    wanted = target.target()
    labels = read_qrels(qrels) if qrels else None
    asked = read_pairs(str(queries)) if queries else None
    with Index(index, opening, writing).opened() as collection, console.progress():
        tuning = collection.tune(wanted, queries=asked, labels=labels, apply=apply)
    if as_json:
        console.print_json(tuning.as_dict())
        return
    show_tuning(tuning)
    if tuning.chosen is not None:
        console.line(
            f"{index} has these settings now" if apply else "--apply gives the index these settings"
        )
