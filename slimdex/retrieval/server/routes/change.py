"""Routes that change an index: add and delete documents, sync, compact, reduce."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import listening
from slimdex.indexes.options import AUTO

from ...asked_sources import AskedSources
from ...collection import Collection
from ...documents import Document, check_columns, json_of
from ...operations.commands import Command, Compact, Delete, Reduce, Sync
from ..access.middleware import needs, reads_by_line
from ..access.tokens import Right
from ..limits import LimitError
from ..served_index import ServedIndex
from .bodies import DeleteBody, DocumentBody, ReduceBody, SyncBody
from .bulk import STREAMED, Durable, commit, commits
from .failures import told_of
from .json_requests import JsonRoute
from .search import Index, service_of

JSON = "application/json"
CORPUS = "corpus.jsonl"
"""Name of the only file that is read in a folder that contains it."""
routes = APIRouter(route_class=JsonRoute, dependencies=[Depends(needs(Right.WRITE))])


@routes.put("/indexes/{name}/documents/{id:path}")
async def put(index: Index, id: str, body: DocumentBody) -> dict[str, Any]:
    """Add or replace the document of this id. It is durable when this is answered."""
    if not id.strip():
        raise InputError("an empty id; expected one")
    metadata = body.model_extra or {}
    check_columns(len(metadata), "the body")  # before others' documents wait for this one
    await index.put(Document(id, body.text, body.title, metadata))
    return {"id": id, "documents": len(index.collection)}


@routes.delete("/indexes/{name}/documents/{id:path}")
async def delete(index: Index, id: str) -> dict[str, Any]:
    """Delete a document."""
    return await _deleted(index, Delete([id]))


@routes.post("/indexes/{name}/delete")
async def delete_several(index: Index, body: DeleteBody) -> dict[str, Any]:
    """Delete documents by their ids, all or none, or by a condition."""
    return await _deleted(index, Delete(body.ids, body.where))


async def _deleted(index: ServedIndex, command: Delete) -> dict[str, Any]:
    found = await index.change(command.run)
    return {name: found[name] for name in ("deleted", "documents")}


@routes.post(
    "/indexes/{name}/documents",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                STREAMED[0]: {
                    "schema": {"type": "string"},
                    "example": '{"id": "1", "text": "The cat sat on the mat.", "year": 1990}\n'
                    '{"id": "2", "text": "Stocks fell.", "year": 2001}\n',
                },
                JSON: {
                    "schema": {"anyOf": [{"type": "object"}, {"type": "array"}]},
                    "example": [{"id": "1", "text": "The cat sat on the mat.", "year": 1990}],
                },
            },
        }
    },
)
async def add(
    index: Index, request: Request, refit: Literal["auto", "never", "always"] = "auto"
) -> Response:
    """Add documents with an id, a text and optionally a title; other fields are metadata.

    One document or an array as JSON is committed at once. Lines of JSON, of any number, are
    committed in batches, whose fit is checked as with `refit=auto`.

    With `Accept: application/x-ndjson`, each durable commit is reported as a line of JSON.
    """
    type_ = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if type_ == JSON:
        return JSONResponse(await commit(index, await _json(request), refit))
    if type_ not in STREAMED:
        raise LimitError(415, f"a body of type {type_!r}; expected {JSON} or {STREAMED[0]}")
    if index.senders >= index.limits.senders:
        raise LimitError(503, f"{index.senders} callers are sending documents; try again later")
    reads_by_line(request)
    told = _told(index, request)
    first = await anext(told)
    if STREAMED[0] in request.headers.get("accept", "") and "error" not in first:
        return Answering(as_lines(first, told), media_type=STREAMED[0])
    last = [first, *[one async for one in told]][-1]
    return JSONResponse(last, last.pop("status", 200))


async def _json(request: Request) -> Any:
    try:
        return await request.json()
    except json.JSONDecodeError as error:
        raise InputError(f"the body: {error.msg}; expected a document, or an array") from error


class Answering(StreamingResponse):
    """An answer that begins while the request is still being read, line by line.

    Starlette's own would also read the request, to detect a disconnection.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        await self.stream_response(send)


async def _told(index: ServedIndex, request: Request) -> AsyncGenerator[dict[str, Any]]:
    """Yield the committed part after each commit; finally the error and its status, if any."""
    durable = Durable()
    index.senders += 1
    try:
        async with aclosing(commits(index, request.stream())) as committed:
            async for durable in committed:
                yield asdict(durable)
    except Exception as error:
        status, line = told_of(error, service_of(request))
        yield {"error": line, "status": status, "durable": asdict(durable)}
    finally:
        index.senders -= 1


async def as_lines(
    first: dict[str, Any], rest: AsyncIterator[dict[str, Any]]
) -> AsyncIterator[str]:
    """Yield objects as lines of JSON."""
    yield json_of(first) + "\n"
    async for one in rest:
        yield json_of(one) + "\n"


@routes.post("/indexes/{name}/sync")
async def sync(index: Index, body: SyncBody, request: Request) -> dict[str, Any]:
    """Synchronise the index with files and folders of the server, like `slimdex sync`.

    Only files in folders that the service was started with (`--files`) are allowed.
    """
    folders = service_of(request).folders
    _check_places(body.sources, folders)
    asked = body.model_dump(exclude={"sources", "refit"}, exclude_none=True)
    asked["links_within"] = [str(folder) for folder in folders]
    command = Sync(AskedSources(body.sources, **asked), body.refit)
    return await index.change(partial(_with_notes, command))


def _check_places(sources: Sequence[str], folders: Sequence[Path]) -> None:
    """Raise a 403 for sources that are not files in the folders."""
    for source in sources:
        place = Path(source)
        read = [place, place / CORPUS]
        if "#" in source:  # a table of a database
            read.append(Path(source.rpartition("#")[0]))
        inside = (
            "\0" not in source
            and place.is_absolute()
            and all(_is_below(path, folders) for path in read)
        )
        if not inside or ":" in source.removeprefix(place.drive).split("/")[0]:
            raise HTTPException(
                403, f"source {source[:200]!r}; expected an absolute path in a folder of --files"
            )


def _is_below(place: Path, folders: Sequence[Path]) -> bool:
    return any(place.resolve().is_relative_to(folder) for folder in folders)


@routes.post("/indexes/{name}/compact")
async def compact(index: Index) -> dict[str, Any]:
    """Free disk space and memory of deleted and replaced documents."""
    return await index.change(Compact().run)


@routes.post("/indexes/{name}/reduce")
async def reduce(index: Index, body: ReduceBody) -> dict[str, Any]:
    """Reduce the vectors again without encoding. Omitted settings are unchanged."""
    return await index.change(lambda collection: _reduced(collection, body))


def changes_of(body: ReduceBody) -> dict[str, Any]:
    """The settings that a body names, and their values."""
    names = set(ReduceBody.model_fields)
    asked = body.model_dump(include=names, exclude_none=True)
    if asked.get("candidates") == AUTO:
        asked["candidates"] = None
    return asked


def _reduced(collection: Collection, body: ReduceBody) -> dict[str, Any]:
    found = _with_notes(Reduce(changes_of(body)), collection)
    return {name: found[name] for name in ("requested", "settings", "notes")}


def _with_notes(command: Command, collection: Collection) -> dict[str, Any]:
    notes = list[str]()
    with listening(note=notes.append):
        return command.run(collection) | {"notes": notes}
