"""Routes that create and drop indexes in the service's root folder."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request

from ..access.middleware import needs
from ..access.tokens import Right
from .bodies import CreateBody
from .change import changes_of
from .json_requests import JsonRoute
from .search import service_of

routes = APIRouter(route_class=JsonRoute, dependencies=[Depends(needs(Right.WRITE))])


@routes.put("/indexes/{name}", status_code=201)
async def create(name: str, body: CreateBody, request: Request) -> dict[str, Any]:
    """Create an empty index in the folder that the service was started with (`--root`)."""
    settings, passages = changes_of(body), body.passages
    index = await service_of(request).create(name, settings, passages)
    return {"name": index.name, "documents": 0}


@routes.delete("/indexes/{name}")
async def drop(name: str, request: Request) -> dict[str, Any]:
    """Drop an index of the folder `--root`, with all its documents, after running requests."""
    return {"name": name, "dropped": await service_of(request).drop(name)}
