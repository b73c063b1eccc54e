"""Routes that say how the service is: whether it lives, is ready, and what it counts."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from .routes_search import service_of

routes = APIRouter()
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@routes.get("/health")
async def health() -> dict[str, str]:
    """Whether it lives."""
    return {"status": "alive"}


@routes.get("/ready")
async def ready(request: Request, response: Response) -> dict[str, str]:
    """Whether it takes queries: models and codes are loaded, and few are waiting."""
    service = service_of(request)
    if not service.is_ready:
        response.status_code = 503
        return {"status": "loading"}
    busy = [index for index in service.indexes.values() if index.waiting >= index.limits.waiting]
    if busy:
        response.status_code = 503
    return {"status": "busy" if busy else "ready"}


@routes.get("/metrics")
async def metrics(request: Request) -> Response:
    """What it counts, as Prometheus reads it."""
    return Response(service_of(request).metrics.text(), media_type=PROMETHEUS)
