"""`slimdex delete`, `slimdex undo`, and `slimdex compact`, which ends what can be undone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ... import console
from ...execution import Index
from ...options.click_commands import Argument
from ...options.opening import Dir, Json, Where, WriteOptions


def delete(
    index: Dir,
    ids: Annotated[list[str] | None, Argument("ID", "Ids of documents.")] = None,
    *,
    where: Where = None,
    writing: WriteOptions,
    as_json: Json = False,
) -> None:
    """Delete documents by id, or by a condition."""
    from slimdex.retrieval.operations.commands import Delete

    found = Index(index, writing=writing).do(Delete(ids or None, where))
    gone = found.pop("gone")
    if as_json:
        console.print_json(found)
        return
    console.line(f"{found['deleted']:,} deleted, {found['documents']:,} left")
    if gone > found["documents"]:
        console.note(still_there(index, gone))


def still_there(index: Path, gone: int) -> str:
    """Return a note for an index with more deleted rows than live ones."""
    return f"{gone:,} rows still take space: `slimdex compact {index}` frees it"


def compact(index: Dir, *, writing: WriteOptions, as_json: Json = False) -> None:
    """Free the space of deleted and replaced documents, on disk and in memory."""
    from slimdex.retrieval.operations.commands import Compact

    found = Index(index, writing=writing).do(Compact())
    if as_json:
        console.print_json(found)
    else:
        console.line(f"{found['freed']:,} rows freed, {found['documents']:,} documents left")


def undo(index: Dir, *, writing: WriteOptions, as_json: Json = False) -> None:
    """Undo the last change of documents, settings or words; again, to make it again."""
    from slimdex.retrieval.operations.undoing import Undo

    found = Index(index, writing=writing).do(Undo())
    if as_json:
        console.print_json(found)
        return
    restored, removed = found["restored"], found["removed"]
    console.line(
        f"{restored:,} restored, {removed:,} removed; {found['documents']:,} documents"
        if restored or removed
        else f"the settings and files before; {found['documents']:,} documents"
    )
