"""Routes that change an index: put and delete documents, compact, reduce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Query
from fastapi.responses import Response

from slimdex.errors import InputError
from slimdex.indexes.options import AUTO

from ...documents import Document, ids_to_delete
from ...index import Index
from ...ingest.compacting import compact as compact_index
from ...ingest.fitting import refit
from ...ingest.writer import delete as delete_documents
from ...quality.refitting import add_documents_then_refit
from ..access import Right
from ..middleware import needs
from ..served_index import ServedIndex
from .bodies import (
    ERRORS,
    AddedBody,
    DeleteBody,
    DocumentBody,
    Json,
    LimitedRoute,
    NewDocumentBody,
    ReduceBody,
    Served,
    refuse_unknown_parameters,
)

WAIT = (
    "False returns once all documents are entered, and found by words; they are encoded afterwards."
)
routes = APIRouter(
    route_class=LimitedRoute,
    dependencies=[Depends(needs(Right.WRITE)), Depends(refuse_unknown_parameters)],
    responses=ERRORS,
    tags=["changes"],
)


@routes.put("/indexes/{name}/documents/{id:path}", response_model=dict[str, Any])
async def put(index: Served, id: str, body: DocumentBody) -> Response:
    """Add or replace the document of this id; answers with the number of all `documents`."""
    if not id.strip():
        raise InputError("an empty id; expected one")
    await index.put(Document(id, body.text, body.title, body.model_extra or {}))
    return Json({"id": id, "documents": len(index.index.snapshot)})


@routes.post("/indexes/{name}/documents", response_model=AddedBody)
async def add(
    index: Served,
    body: Annotated[list[NewDocumentBody], Body(examples=[[{"id": "1", "text": "The cat sat."}]])],
    refit: Literal["auto", "never", "always"] = "auto",
    wait: Annotated[bool, Query(description=WAIT)] = True,
) -> Response:
    """Add documents, all or none."""
    documents = [each.model_dump() for each in body]
    added = await index.change(
        lambda it: add_documents_then_refit(it, documents, refit=refit, encode=wait)
    )
    if not wait:
        index.encode_later()
    return Json(asdict(added))


@routes.delete("/indexes/{name}/documents/{id:path}", response_model=dict[str, Any])
async def delete(index: Served, id: str) -> Response:
    """Delete a document; answers with the numbers of `deleted` and remaining `documents`."""
    return await _delete(index, [id])


@routes.post("/indexes/{name}/delete", response_model=dict[str, Any])
async def delete_several(index: Served, body: DeleteBody) -> Response:
    """Delete documents by their ids, all or none, or by a condition."""
    return await _delete(index, body.ids, body.where)


async def _delete(
    index: ServedIndex, ids: Sequence[str | int] | None, where: str | None = None
) -> Response:
    """Delete documents by ids or by a condition; answer with their number."""

    def deleted(opened: Index) -> dict[str, Any]:
        count = delete_documents(opened, ids_to_delete(ids, where), where)
        return {"deleted": count, "documents": len(opened.snapshot)}

    return Json(await index.change(deleted))


@routes.post("/indexes/{name}/compact", response_model=dict[str, Any])
async def compact(index: Served) -> Response:
    """Free disk space and memory of deleted and replaced documents, `freed` in the answer."""

    def compacted(opened: Index) -> dict[str, Any]:
        return {"freed": compact_index(opened), "documents": len(opened.snapshot)}

    return Json(await index.change(compacted))


@routes.post("/indexes/{name}/reduce", response_model=dict[str, Any])
async def reduce(index: Served, body: ReduceBody) -> Response:
    """Reduce the vectors again without encoding. Omitted settings are unchanged."""
    changes = body.model_dump(exclude_none=True)
    if body.candidates == AUTO:
        changes["candidates"] = None  # "auto" in `Settings`; None in the body means unchanged

    def reduced(opened: Index) -> dict[str, Any]:
        state = opened.state
        notes = refit(opened, state.requested.changed(changes, state.dim))
        state = opened.state

        # Return the requested settings, and those in effect.
        return {
            "requested": state.requested.as_dict(),
            "settings": None if state.settings is None else state.settings.as_dict(),
            "notes": notes,
        }

    return Json(await index.change(reduced))
