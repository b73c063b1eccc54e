"""Reading: a document as a whole, as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..documents import Document
from .options import Dir, Json, Wait

if TYPE_CHECKING:
    from ..collection.collection import Collection


def open_document(
    index: Dir,
    id: Annotated[str, typer.Argument(metavar="ID", help="Of the document, or its path.")],
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Print a whole document."""
    from ..collection.collection import Collection
    from . import console

    with Collection.open(index, read_only=True, wait=wait) as collection:
        document = collection.get(_known_by(collection, id))
    if as_json:
        console.print_json(as_json_object(document))
        return
    console.line(document.title or document.id, style="bold")
    facts = {name: str(value) for name, value in document.metadata.items() if value is not None}
    console.show_pairs({"id": document.id, **facts, "passages": len(document.passages) or 1})
    console.line("")
    for text in document.text.split("\n"):
        console.line(text)


def _known_by(collection: Collection, id: str) -> str:
    """An id; if it is none, but the path of one document, that one's."""
    if id in collection or "path" not in collection._store.columns:
        return id
    where = f"path = '{id.replace(chr(39), 2 * chr(39))}'"
    found = collection._rows_where(collection._snapshot, where)
    return collection._store.documents(found.tolist())[int(found[0])].id if len(found) == 1 else id


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
