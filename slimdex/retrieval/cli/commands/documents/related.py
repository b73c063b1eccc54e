"""`slimdex related`."""

from __future__ import annotations

from typing import Annotated

from ... import console
from ...execution import Index
from ...options.click_commands import Argument
from ...options.opening import Dir, Json, Where


def related(
    index: Dir,
    id: Annotated[str, Argument("ID", "The document's id or path.")],
    *,
    limit: Annotated[int, "-n", "--limit", "NUMBER", "Documents to find."] = 10,
    where: Where = None,
    as_json: Json = False,
) -> None:
    """Find the documents nearest in meaning to a document."""
    from slimdex.retrieval.documents import hit_from_json
    from slimdex.retrieval.operations.commands import Related

    from ...answers import show_hits

    found = Index(index).do(Related(id, limit, where))
    if as_json:
        console.print_json(found)
        return
    show_hits(found["id"], [hit_from_json(hit) for hit in found["hits"]], is_text=False)
