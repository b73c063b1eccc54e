"""Routes of the service itself: the web page, the API's documentation, status and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.exceptions import HTTPException

from ...store.manifest import Manifest
from ..service import Service
from .bodies import service_of

routes = APIRouter()
PAGE = Path(__file__).parent.parent / "page"
SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""Headers of the page: only its own scripts run, and other pages can't embed it."""
SWAGGER = ("swagger-ui-bundle.js", "swagger-ui.css")
READY = "ready"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@routes.get("/", include_in_schema=False)
async def page() -> Response:
    """The page."""
    return FileResponse(PAGE / "index.html", headers=SAFE)


@routes.get("/page/{name}", include_in_schema=False)
async def part(name: str) -> Response:
    """Files of the page."""
    if name not in {path.name for path in PAGE.iterdir()}:
        raise HTTPException(404, f"{name[:100]!r}; expected a part of the page")
    return FileResponse(PAGE / name, headers=SAFE)


@routes.get("/docs", include_in_schema=False)
async def docs() -> HTMLResponse:
    """Interactive documentation of the API."""
    return get_swagger_ui_html(
        openapi_url="docs/openapi.json",
        title="slimdex",
        swagger_js_url=f"docs/{SWAGGER[0]}",
        swagger_css_url=f"docs/{SWAGGER[1]}",
        swagger_favicon_url="page/icon.svg",
    )


@routes.get("/docs/openapi.json", include_in_schema=False)
async def docs_api(request: Request) -> dict[str, Any]:
    """The API in version 3.0, the newest that this Swagger UI knows, with a field for a token."""
    api: dict[str, Any] = request.app.openapi()
    schemes = {"token": {"type": "http", "scheme": "bearer"}}
    return api | {
        "openapi": "3.0.3",
        "components": api["components"] | {"securitySchemes": schemes},
        "security": [{"token": []}],
    }


@routes.get("/docs/{name}", include_in_schema=False)
async def docs_part(name: str) -> Response:
    """Files of the API's documentation."""
    from swagger_ui_bundle import swagger_ui_path

    if name not in SWAGGER:
        raise HTTPException(404, f"{name[:100]!r}; expected a part of the page")
    return FileResponse(Path(swagger_ui_path) / name)


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
