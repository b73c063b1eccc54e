"""`slimdex delete`, and `slimdex compact` to free the space of deleted documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ... import console
from ...execution import do
from ...options.click_commands import Argument
from ...options.opening import Dir, Json, Wait, Where


def delete(
    index: Dir,
    ids: Annotated[list[str] | None, Argument("ID", "Ids of documents.")] = None,
    where: Where = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Delete documents by id, or by a condition."""
    from ....operations.commands import Delete

    found = do(Delete(ids or None, where), index, wait)
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


def compact(index: Dir, wait: Wait = 0, as_json: Json = False) -> None:
    """Free the space of deleted and replaced documents, on disk and in memory."""
    from ....operations.commands import Compact

    found = do(Compact(), index, wait)
    if as_json:
        console.print_json(found)
    else:
        console.line(f"{found['freed']:,} rows freed, {found['documents']:,} documents left")
