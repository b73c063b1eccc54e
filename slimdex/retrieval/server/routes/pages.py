"""Routes of the service itself: the web page, the API's documentation, status and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import fastapi_offline
from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from ...store.manifest import Manifest
from ..service import Service
from .answers import Responses, StatusBody, answer, errors
from .bodies import Json, service_of

routes = APIRouter(tags=["service"])
PAGE = Path(__file__).parent.parent / "page"
FILES = StaticFiles()
FRESH = {"Cache-Control": "no-cache"}
"""Header of files that a browser keeps, but asks whether they have changed."""
SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    **FRESH,
}
"""Headers of the page: only its own scripts run, and other pages can't embed it."""
SWAGGER = ("swagger-ui-bundle.js", "swagger-ui.css")
READY = "ready"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
MEASURED: Responses = {200: {"content": {"text/plain": {}}}}


@routes.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """The page."""
    return _file_response(PAGE / "index.html", request, SAFE)


@routes.get("/page/{name}", include_in_schema=False)
async def part(name: str, request: Request) -> Response:
    """Files of the page."""
    if name not in {path.name for path in PAGE.iterdir()}:
        raise HTTPException(404, f"{name[:100]!r}; expected a part of the page")
    return _file_response(PAGE / name, request, SAFE)


def _file_response(path: Path, request: Request, headers: Mapping[str, str] = FRESH) -> Response:
    """Return a file, or a 304 for a browser that has it."""
    answer = FILES.file_response(path, path.stat(), request.scope)
    answer.headers.update(headers)
    return answer


@routes.get("/docs", include_in_schema=False)
async def docs() -> HTMLResponse:
    """Interactive documentation of the API."""
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title="slimdex",
        swagger_js_url=f"docs/{SWAGGER[0]}",
        swagger_css_url=f"docs/{SWAGGER[1]}",
        swagger_favicon_url="page/icon.svg",
    )


@routes.get("/docs/{name}", include_in_schema=False)
async def docs_part(name: str, request: Request) -> Response:
    """Files of the API's documentation."""
    if name not in SWAGGER:
        raise HTTPException(404, f"{name[:100]!r}; expected a part of the page")
    return _file_response(Path(fastapi_offline.__file__).parent / "static" / name, request)


@routes.get("/health", responses=answer(StatusBody) | errors((400, 403)))
async def health() -> Response:
    """Report that the service runs."""
    return Json({"status": "alive"})


@routes.get("/ready", responses=answer(StatusBody) | errors((400, 403)) | answer(StatusBody, 503))
async def ready(request: Request) -> Response:
    """Report whether queries are accepted: models are loaded, files are readable and whole, the
    queue is short."""
    status = await _status(service_of(request))
    return Json({"status": status}, 200 if status == READY else 503)


async def _status(service: Service) -> str:
    """Return the status that `/ready` reports; `StatusBody` lists all of them."""
    indexes = service.indexes.values()
    if not service.is_ready:
        return "loading"

    # Check that the commit can be read, then the files that it names.
    if not all([await index.can(lambda it: Manifest.read_current(it.path)) for index in indexes]):
        return "recovering"
    if not all([await index.can(lambda it: it.check_files()) for index in indexes]):
        return "damaged"
    is_busy = any(index.waiting >= index.limits.waiting for index in indexes)
    return "busy" if is_busy else READY


@routes.get(
    "/metrics",
    response_class=Response,
    responses=MEASURED | errors((400, 401, 403)),
)
async def metrics(request: Request) -> Response:
    """Metrics in Prometheus' format."""
    return Response(service_of(request).metrics.text(), media_type=PROMETHEUS)
