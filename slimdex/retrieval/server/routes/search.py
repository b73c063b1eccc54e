"""Routes that read: searches, documents, facts about an index."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from slimdex.errors import InputError
from slimdex.indexes.arrays import batches

from ...documents import Document, Hit, document_json, hit_json, id_texts
from ...quality.info import facts as facts_of
from ...search.answer import related as related_to
from ...search.excerpts import nearest_by_words, word_places
from ...search.options import Reranker, SearchOptions, options_of
from ...search.request import SearchRequest
from ...store.snapshot import Snapshot
from ..access import Right
from ..column_facts import column_facts
from ..limits import Limits
from ..middleware import RIGHT
from .bodies import (
    ERRORS,
    DocumentsBody,
    FoundBody,
    HitBody,
    Json,
    LimitedRoute,
    SearchBody,
    Served,
    WholeDocumentBody,
    refuse_unknown_parameters,
    service_of,
)

routes = APIRouter(
    route_class=LimitedRoute,
    dependencies=[Depends(refuse_unknown_parameters)],
    responses=ERRORS,
    tags=["search"],
)
EXCERPT = 280
"""Characters of an excerpt."""
MOST_LISTED = 1000
LISTED_AT_ONCE = 10
LISTED_CHARACTERS = 4 << 20
"""A page of a listing ends when its documents have this many characters."""
Limit = Annotated[int, Query(ge=1, le=Limits.hits)]


@routes.post("/indexes/{name}/search", response_model=FoundBody)
async def search(index: Served, body: SearchBody, request: Request) -> Response:
    """Search the documents closest in meaning to a query, or to each of several."""
    search_request = _request(body, service_of(request).reranker)
    reply = await index.search(search_request)

    def as_json() -> Json:
        queries = []
        for name, hits in zip(search_request.names, reply.hits, strict=True):
            queries.append({"query": name, "hits": [_hit(hit, name, body) for hit in hits]})
        return Json(
            {
                "queries": queries,
                "unfinished": index.index.snapshot.unfinished or None,
                "milliseconds": {name: round(1000 * s, 3) for name, s in reply.seconds.items()},
            }
        )

    return await asyncio.to_thread(as_json)  # other requests need not wait


def _hit(hit: Hit, query: str, body: SearchBody) -> dict[str, Any]:
    """Convert a hit of a query to JSON, with an excerpt and marks if the body asks for them."""
    if not body.excerpts:
        return hit_json(hit)

    # A vector has no words to quote or mark.
    text = query if body.vector is None and body.vectors is None else ""
    part = nearest_by_words(text, hit, EXCERPT)
    return hit_json(hit) | {
        "excerpt": [part.start, part.end],
        "excerpt_lines": None if part.line is None else [part.line, part.last_line],
        "excerpt_pages": None if part.page is None else [part.page, part.last_page],
        "marks": word_places(hit.text, text),
    }


def _request(body: SearchBody, reranker: Reranker | None) -> SearchRequest:
    """Make the request that a body describes; raises `InputError` if it is invalid."""
    if body.rerank and reranker is None:
        raise InputError("rerank=True: this service has no such model; expected false")
    ways = (body.query, body.queries, body.vector, body.vectors)
    if sum(way is not None for way in ways) != 1:
        raise InputError("expected one of query, queries, vector and vectors")

    vectors: Any = body.vectors if body.vector is None else [body.vector]
    options = {name: value for name, value in body if name in options_of(SearchOptions)}
    return SearchRequest(
        texts=body.queries if body.query is None else [body.query],
        vectors=vectors,
        **options | {"rerank": reranker if body.rerank else None},
    )


@routes.get("/indexes", response_model=dict[str, Any])
async def indexes(request: Request) -> Response:
    """List the indexes with their numbers of documents, and what the caller can do: "write", and
    "rerank" hits.
    """
    service = service_of(request)

    # `can` depends on the token, and on how the service was started.
    can = []
    if request.scope[RIGHT] >= Right.WRITE:
        can.append("write")
    if service.reranker is not None:
        can.append("rerank")

    served = []
    for name, index in service.indexes.items():
        served.append({"name": name, "documents": len(index.index.snapshot)})
    return Json({"indexes": served, "can": can})


@routes.get("/indexes/{name}", response_model=dict[str, Any])
async def info(index: Served) -> Response:
    """Contents, settings and size of an index."""
    facts = await index.read(lambda opened: opened.read(facts_of))
    facts["path"] = index.name
    facts |= _without_folders({name: facts[name] for name in ("encoder", "next_encoder")})
    return Json(facts)


def _without_folders(spec: dict[str, Any]) -> dict[str, Any]:
    """Return an encoder's specification without folders of models, which callers may not see."""
    shown = dict[str, Any]()
    for name, value in spec.items():
        if isinstance(value, dict):
            shown[name] = _without_folders(value)
        elif name == "model":
            shown[name] = Path(str(value)).name
        else:
            shown[name] = value
    return shown


@routes.get("/indexes/{name}/columns", response_model=dict[str, Any])
async def columns(index: Served) -> Response:
    """Columns of the documents, with their values if few, or their range."""
    facts = await index.read(lambda opened: column_facts(opened.store))
    return Json({"columns": facts})


@routes.get("/indexes/{name}/documents", response_model=DocumentsBody)
async def documents(
    index: Served,
    where: str | None = None,
    after: str = "",
    limit: Annotated[int, Query(ge=0, le=MOST_LISTED)] = 100,
) -> Response:
    """List documents, all or those that a condition holds for, in the order of their ids.

    A page has at most `limit` documents, fewer if they are long. 0 only counts them. The next page
    begins `after` the last id, even if that document has been changed or deleted.
    """
    page = await index.read(lambda opened: opened.read(_page, where, after, limit), where)
    return Json(page)


def _page(snapshot: Snapshot, where: str | None, after: str, limit: int) -> dict[str, Any]:
    """Return a page of the documents that match a condition, after an id."""
    matches = snapshot.rows_where(where)
    # One more than the limit shows whether documents follow.
    rows = snapshot.page(where, limit + 1, after) if limit else matches

    # As many documents as fit on the page.
    documents = list[Document]()
    for part in batches(min(limit, len(rows)), LISTED_AT_ONCE):
        page_rows = rows[:limit][part].tolist()
        by_row = snapshot.store.documents(page_rows)
        documents += [by_row[row] for row in page_rows]
        if sum(len(document.text) for document in documents) >= LISTED_CHARACTERS:
            break

    return {
        "documents": [document_json(document) for document in documents],
        "count": len(matches),
        "more": len(documents) < len(rows),
        "version": snapshot.state.version,
    }


@routes.get("/indexes/{name}/related/{id:path}", response_model=dict[str, list[HitBody]])
async def related(index: Served, id: str, where: str | None = None, limit: Limit = 10) -> Response:
    """Find the documents nearest in meaning to a document, best first, without itself."""
    hits = await index.read(lambda opened: opened.read(related_to, id, limit, where), where)
    return Json({"hits": [hit_json(hit) for hit in hits]})


@routes.get("/indexes/{name}/documents/{id:path}", response_model=WholeDocumentBody)
async def get(index: Served, id: str) -> Response:
    """A whole document."""
    (document,) = await index.read(lambda opened: opened.read(Snapshot.of_ids, id_texts(id)))
    return Json(document_json(document))
