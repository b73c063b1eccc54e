"""Change documents: `slimdex add`, `delete`, `dedup`, `undo` and `compact`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

from ... import console
from ...execution import Index
from ...options.click_commands import Argument
from ...options.encoding import RayOptions
from ...options.opening import Dir, Json, OpenOptions, Where, WriteOptions
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
    from slimdex.retrieval import commands

    with cluster.started() as workers:
        command = partial(commands.add, sources=sources.asked(vectors), refit=refit)
        facts = Index(index, opening, writing, workers).do(command)
    console.show_index(facts, as_json)


def delete(
    index: Dir,
    ids: Annotated[list[str] | None, Argument("ID", "Ids of documents.")] = None,
    *,
    where: Where = None,
    writing: WriteOptions,
    as_json: Json = False,
) -> None:
    """Delete documents by id, or by a condition."""
    from slimdex.retrieval import commands

    deleted = partial(commands.delete, ids=ids or None, where=where)
    done = Index(index, writing=writing).do(deleted)
    gone = done.pop("gone")
    text = f"{done['deleted']:,} deleted, {done['documents']:,} left"
    console.show_result(done, text, as_json)
    if gone > done["documents"] and not as_json:
        console.note(still_there(index, gone))


def still_there(index: Path, gone: int) -> str:
    """Return a note for an index with more deleted rows than live ones."""
    return f"{gone:,} rows still take space: `slimdex compact {index}` frees it"


def compact(index: Dir, *, writing: WriteOptions, as_json: Json = False) -> None:
    """Free the space of deleted and replaced documents, on disk and in memory."""
    from slimdex.retrieval import commands

    done = Index(index, writing=writing).do(commands.compact)
    text = f"{done['freed']:,} rows freed, {done['documents']:,} documents left"
    console.show_result(done, text, as_json)


def undo(index: Dir, *, writing: WriteOptions, as_json: Json = False) -> None:
    """Undo the last change of documents, settings or words; again, to make it again."""
    done = Index(index, writing=writing).do(
        lambda collection: asdict(collection.undo()) | {"documents": len(collection)}
    )
    text = "the settings and files before"
    if done["restored"] or done["removed"]:
        text = f"{done['restored']:,} restored, {done['removed']:,} removed"
    console.show_result(done, f"{text}; {done['documents']:,} documents", as_json)


def dedup(
    index: Dir,
    *,
    min_score: Annotated[
        float, "COSINE", "Least cosine of the encoder's vectors; 1 for equal ones."
    ] = 0.95,
    delete: Annotated[bool, "Delete all documents of a group but the first added."] = False,
    writing: WriteOptions,
    as_json: Json = False,
) -> None:
    """List groups of near-duplicates; the first added of each is named first."""
    from slimdex.retrieval import commands

    found = partial(commands.dedup, min_score=min_score, deletes=delete)
    report = Index(index, writing=writing).do(found)
    if as_json:
        console.print_json(report)
        return
    groups = report["groups"]
    for group in groups:
        console.line(group["kept"], "bold")
        for other in group["others"]:
            console.line(f"  {other['score']:.4f}  {other['id']}")
    if not groups:
        console.line(f"no near-duplicates among {report['documents']:,} documents")
        return
    text = f"{report['duplicates']:,} near-duplicates of {len(groups):,} documents"
    if delete:
        text += f": {report['deleted']:,} deleted, {report['documents']:,} left"
    console.line(text)
