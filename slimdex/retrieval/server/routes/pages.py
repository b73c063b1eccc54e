"""Routes of the service itself: the web page, the API's documentation, status and metrics."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.staticfiles import StaticFiles

from slimdex.errors import CorruptError, SlimdexError

from ...index import Index
from ...store.manifest import Manifest
from ...store.snapshot import Snapshot
from ..service import Service
from .bodies import ERRORS, Json, service_of

routes = APIRouter(responses=ERRORS, tags=["service"])
PAGE = Path(__file__).parent.parent / "page"
FILES = StaticFiles(directory=PAGE, packages=[("fastapi_offline", "static")])
"""Files of the page, and Swagger UI."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # a browser keeps the files, but asks whether they have changed
}
"""Headers of the page: only its own scripts run, and other pages can't embed it."""
READY = "ready"


@routes.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """The page."""
    return await part("index.html", request)


@routes.get("/page/{name}", include_in_schema=False)
async def part(name: str, request: Request) -> Response:
    """A file of the page or of Swagger UI."""
    answer = await FILES.get_response(name, request.scope)
    answer.headers.update(HEADERS)
    return answer


@routes.get("/docs", include_in_schema=False)
async def docs() -> HTMLResponse:
    """Interactive documentation of the API."""
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title="slimdex",
        swagger_js_url="page/swagger-ui-bundle.js",
        swagger_css_url="page/swagger-ui.css",
        swagger_favicon_url="page/icon.svg",
    )


@routes.get("/health", response_model=dict[str, str])
async def health() -> Response:
    """Report that the service runs."""
    return Json({"status": "alive"})


@routes.get("/ready", response_model=dict[str, str], responses={503: {"model": dict[str, str]}})
async def ready(request: Request) -> Response:
    """Report whether queries are accepted: models are loaded, files are readable and whole, the
    queue is short."""
    status = await _status(service_of(request))
    return Json({"status": status}, 200 if status == READY else 503)


async def _status(service: Service) -> str:
    """Return the status that `/ready` reports."""
    if not service.is_ready:
        return "loading"
    for index in service.indexes.values():
        try:
            await index.read(_check_files)
        except CorruptError:
            return "damaged"
        except (SlimdexError, OSError):
            return "recovering"
        if index.waiting >= index.limits.waiting:
            return "busy"
    return READY


def _check_files(index: Index) -> None:
    """Raise an error unless the commit can be read, and the files that it names are whole."""
    Manifest.read_current(index.path)
    if index.state.rows:
        index.read(Snapshot.check_files)


@routes.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Metrics in Prometheus' format."""
    return Response(service_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)
