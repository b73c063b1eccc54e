"""`slimdex open`."""

from __future__ import annotations

from typing import Annotated

from ... import console
from ...execution import Index
from ...options.click_commands import Argument
from ...options.opening import Dir, Json


def open_document(
    index: Dir,
    id: Annotated[str, Argument("ID", "The document's id or path.")],
    as_json: Json = False,
) -> None:
    """Print a whole document."""
    from ....operations.commands import Fetch

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
