"""Routes of the service's status: alive, ready, metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ...store.manifest import Manifest
from ..service import Service
from .search import service_of

routes = APIRouter()
READY = "ready"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@routes.get("/health")
async def health() -> dict[str, str]:
    """Report that the service runs."""
    return {"status": "alive"}


@routes.get("/ready")
async def ready(request: Request, response: Response) -> dict[str, str]:
    """Report whether queries are accepted: models are loaded, files are readable and whole, the
    queue is short."""
    status = await _status(service_of(request))
    if status != READY:
        response.status_code = 503
    return {"status": status}


async def _status(service: Service) -> str:
    indexes = service.indexes.values()
    if not service.is_ready:
        return "loading"
    if not all([await index.can(lambda it: Manifest.committed(it.path)) for index in indexes]):
        return "recovering"
    if not all([await index.can(lambda it: it.index.check_files()) for index in indexes]):
        return "damaged"
    is_busy = any(index.waiting >= index.limits.waiting for index in indexes)
    return "busy" if is_busy else READY


@routes.get("/metrics")
async def metrics(request: Request) -> Response:
    """Metrics in Prometheus' format."""
    return Response(service_of(request).metrics.text(), media_type=PROMETHEUS)
