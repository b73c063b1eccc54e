"""Routes that read: searches, documents, facts about an index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from slimdex.indexes.arrays import as_matrix
from slimdex.indexes.errors import InputError

from ...as_json import document_json, hit_json, json_of
from ...collection import Collection
from ...search.request import SearchRequest
from ..served_index import ServedIndex
from ..service import Service
from .bodies import FoundBody, SearchBody
from .json_requests import JsonRoute
from .openai_filters import where_of

routes = APIRouter(route_class=JsonRoute)
WRITTEN_AT_ONCE = 200
"""Largest number of hits serialised in the event loop; more are serialised in a thread."""
ONE_OF = "expected one of query, queries, vector and vectors"


def service_of(request: Request) -> Service:
    """The service that a request is for."""
    service: Service = request.app.state.service
    return service


async def index_of(name: str, request: Request) -> ServedIndex:
    """The index that a request names. (FastAPI would run a function that is not `async` in a
    thread.)

    Raises `InputError` if its path is not UTF-8: different bytes would become the same id.
    """
    raw = unquote_to_bytes(request.scope.get("raw_path") or b"")
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"path {raw[:100]!r}; expected UTF-8") from error
    return service_of(request).named(name)


Index = Annotated[ServedIndex, Depends(index_of)]


class Json(Response):
    """JSON as `as_json` writes it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode in UTF-8."""
        return json_of(content).encode("utf-8", "backslashreplace")


@routes.post("/indexes/{name}/search", responses={200: {"model": FoundBody}})
async def search(index: Index, body: SearchBody) -> Response:
    """Search the documents closest in meaning to a query, or to each of several."""
    request = _request(body, where_of(body.where, index.collection))
    found = await index.search(request)
    chance = await index.chance_score(request)

    def answer() -> Json:
        return Json(
            {
                "queries": [
                    {"query": name, "hits": [hit_json(hit) for hit in hits]}
                    for name, hits in zip(request.names, found.hits, strict=True)
                ],
                "chance_score": chance,
                "milliseconds": {name: round(1000 * s, 3) for name, s in found.seconds.items()},
            }
        )

    if sum(map(len, found.hits)) <= WRITTEN_AT_ONCE:
        return answer()
    return await index.read(lambda _: answer())


def _request(body: SearchBody, where: str | None) -> SearchRequest:
    ways = (body.query, body.queries, body.vector, body.vectors)
    if sum(way is not None for way in ways) != 1:
        raise InputError(ONE_OF)
    rows = body.vectors if body.vector is None else [body.vector]
    if len(lengths := {len(row) for row in rows or ()}) > 1:
        raise InputError(f"vectors of {sorted(lengths)} dimensions; expected equal ones")
    return SearchRequest(
        body.queries if body.query is None else [body.query],
        None if rows is None else as_matrix(rows),
        body.limit,
        where,
        body.candidates,
        body.per,
        body.hybrid,
        body.min_score,
    )


@routes.get("/indexes")
async def indexes(request: Request) -> dict[str, list[dict[str, Any]]]:
    """List the indexes with their numbers of documents."""
    return {
        "indexes": [
            {"name": name, "documents": len(index.collection)}
            for name, index in service_of(request).indexes.items()
        ]
    }


@routes.get("/indexes/{name}")
async def info(index: Index) -> Response:
    """Contents, settings and size of an index."""
    facts = await index.read(Collection.info)
    facts["path"] = index.name
    encoder = facts["encoder"]
    if "model" in encoder:  # don't reveal its folder
        facts["encoder"] = encoder | {"model": Path(str(encoder["model"])).name}
    return Json(facts)


@routes.get("/indexes/{name}/columns")
async def columns(index: Index) -> Response:
    """Columns of the documents, with their values if few, or their range."""
    return Json({"columns": await index.columns()})


@routes.get("/indexes/{name}/documents/{id:path}")
async def get(index: Index, id: str) -> Response:
    """A whole document."""
    return Json(document_json(await index.read(lambda collection: collection.get(id))))
