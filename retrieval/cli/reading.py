"""Reading: a document as a whole, as a person reads it."""

from __future__ import annotations

from typing import Annotated

import typer

from ..documents import Document
from .options import Dir, Json, Wait


def open_document(
    index: Dir,
    id: Annotated[str, typer.Argument(metavar="ID", help="Of the document.")],
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Print a whole document."""
    from ..collection.collection import Collection
    from . import console

    with Collection.open(index, read_only=True, wait=wait) as collection:
        document = collection.get(id)
    if as_json:
        console.print_json(as_json_object(document))
        return
    console.line(document.title or document.id, style="bold")
    facts = {name: value for name, value in document.metadata.items() if value is not None}
    console.show_pairs({"id": document.id, **facts, "passages": len(document.passages) or 1})
    console.line("")
    for text in document.text.split("\n"):
        console.line(text)


def as_json_object(document: Document) -> dict[str, object]:
    """A document as JSON has it, with its parts and where it is cut."""
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "metadata": dict(document.metadata),
        "parts": [
            {
                "start": part.start,
                "headings": list(part.headings),
                "page": part.page,
                "anchor": part.anchor,
            }
            for part in document.parts
        ],
        "passages": [{"start": start, "end": end} for start, end in document.passages],
    }
