"""`slimdex open`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from slimdex.indexes.errors import InputError

from ... import console
from ...execution import Index
from ...options.click_commands import Argument
from ...options.opening import Dir, Json

if TYPE_CHECKING:
    from slimdex.retrieval.operations.commands import Lines

_RANGE = re.compile(r"(\d{1,9})(?:(-)(\d{1,9})?)?", re.ASCII)


def open_document(
    index: Dir,
    id: Annotated[str, Argument("ID", "The document's id or path.")],
    *,
    lines: Annotated[str | None, "FIRST-LAST", "Only these lines of its text: 10-20."] = None,
    as_json: Json = False,
) -> None:
    """Print a whole document, or lines of it."""
    from slimdex.retrieval.operations.commands import Fetch, Read

    if lines is not None:
        (read,) = Index(index).do(Read([_asked(id, lines)]))["documents"]
        if as_json:
            console.print_json(read)
            return
        for line in read["text"].split("\n"):
            console.line(line)
        return
    document = Index(index).do(Fetch(id))
    if as_json:
        console.print_json(document)
        return
    console.line(document["title"] or document["id"], style="bold")
    facts = {name: str(v) for name, v in document["metadata"].items() if v is not None}
    passages = len(document["passages"]) or 1
    console.show_pairs({"id": document["id"], **facts, "passages": passages})
    console.line("")
    for text in document["text"].split("\n"):
        console.line(text)


def _asked(id: str, lines: str) -> Lines:
    """Parse a range of lines: one, from one to another, or from one to the end.

    >>> _asked("a", "7").last, _asked("a", "7-9").last, _asked("a", "7-").last
    (7, 9, None)
    """
    from slimdex.retrieval.operations.commands import Lines

    if not (found := _RANGE.fullmatch(lines)):
        raise InputError(f"--lines {lines}; expected FIRST-LAST, such as 10-20")
    first, dash, last = found.groups()
    return Lines(id, int(first), int(last) if last else None if dash else int(first))
