"""The application: its routes, errors as one line of JSON, and a process that serves it.

One process per index answers all callers. OpenVINO, FAISS and DuckDB use threads on all cores, and
concurrent queries form one batch: several processes would each hold the model and the codes in
memory, and split the batches.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from slimdex.errors import SlimdexError, shorten

from .access import Listening
from .mcp_tools import Tools, agents_server
from .middleware import error_json, guard
from .routes import change, openai, pages, search, upload
from .routes.bodies import Json
from .routes.failures import first_line, status_and_message
from .service import Service

METHODS = ("GET", "POST", "PUT", "DELETE")
"""Methods of routes; HEAD is GET without the body."""
LONGEST_PATH = 200
"""Characters of a path that an error states."""
CONNECTIONS = 4096
"""Open connections; further ones are answered with 503 and closed."""
GRACE_S = 3600
"""Seconds for running requests after a signal to stop; a second Ctrl-C ends them at once."""
ABOUT = """Semantic search in a fraction of the memory. An error is `{"error": "one line"}`."""


class _Api(FastAPI):
    """The routes, and their description."""

    def openapi(self) -> dict[str, Any]:
        """Describe the API; a token is required by services that were started with tokens."""
        api = super().openapi()
        api["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        api["security"] = [{}, {"token": []}]
        return api


def application(service: Service, started: Callable[[], None] = lambda: None) -> FastAPI:
    """Create the application, without the middleware in front of it.

    Its lifespan calls `started`, and at the end closes the indexes.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with service.life(), agents.session_manager.run():
            started()
            yield

    # Hosts and tokens are checked in front of the application.
    agents = agents_server(Tools(service.indexes.keys(), service.read))
    no_checks = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    agents.streamable_http_app(
        json_response=True, stateless_http=True, transport_security=no_checks
    )
    app = _Api(
        title="slimdex",
        version=version("slimdex"),
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
    )
    app.state.service = service

    # Routes.
    for module in (search, openai, pages, change, upload):
        app.include_router(module.routes)
    # Not GET, whose stream never ends.
    app.router.routes.append(
        Route("/mcp", StreamableHTTPASGIApp(agents.session_manager), methods=["POST"])
    )

    # Errors.
    app.add_exception_handler(RequestValidationError, _misread)
    for kind in (HTTPException, SlimdexError, OSError, Exception):
        app.add_exception_handler(kind, _answer_error)
    app.add_exception_handler(404, _no_such_route)
    app.add_exception_handler(405, _other_method)
    return app


def run(
    service: Service, listening: Listening, started: Callable[[str], None] = lambda url: None
) -> None:
    """Serve until SIGINT or SIGTERM, then finish running requests and close the indexes.

    `started` is called with the URL once requests are accepted.
    """
    tcp = listening.listen()
    app = application(service, lambda: started(listening.url(tcp)))
    config = uvicorn.Config(
        guard(app, listening.hosts, listening.tokens, service.limits, service.metrics),
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
        lifespan="on",
    )
    # uvicorn raises the signal that ended it again: SIGTERM would kill this process then.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run([tcp])


async def _misread(request: Request, error: Exception) -> Response:
    """Answer an invalid request with the first of its faults."""
    assert isinstance(error, RequestValidationError)
    faults = [*error.errors()]

    # FastAPI leaves a body as bytes unless its type is JSON.
    is_other_type = faults[0]["loc"] == ("body",) and isinstance(faults[0].get("input"), bytes)
    if is_other_type:
        type_ = request.headers.get("content-type", "")[:100]
        return _answer(request, 415, f"a body of type {type_!r}; expected application/json")
    return _answer(request, 422, first_line(faults))


async def _answer_error(request: Request, error: Exception) -> Response:
    return _answer(request, *status_and_message(error, request.app.state.service))


async def _no_such_route(request: Request, error: Exception) -> Response:
    """Answer a 404; keep the message unless it is that of an unknown path."""
    assert isinstance(error, HTTPException)
    if error.detail != HTTPStatus.NOT_FOUND.phrase:  # an index or a document, for instance
        return await _answer_error(request, error)
    path = request.url.path[:LONGEST_PATH]
    return _answer(request, 404, f"{path!r}: no such route; see /docs")


async def _other_method(request: Request, error: Exception) -> Response:
    """Answer a method without a route: OPTIONS with the path's methods, others with an error."""
    methods = []
    for method in METHODS:
        scope = {**request.scope, "method": method}
        matches = [route.matches(scope)[0] for route in request.app.routes]
        if Match.FULL in matches:
            methods.append(method)
    if "GET" in methods:
        methods.append("HEAD")
    methods.append("OPTIONS")
    allowed = {"Allow": ", ".join(methods)}
    if request.method == "OPTIONS":
        return Response(status_code=204, headers=allowed)
    line = f"{request.method[:20]} {shorten(request.url.path)}; expected {' or '.join(methods)}"
    return _answer(request, 405, line, allowed)


def _answer(
    request: Request, status: int, line: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer an error with one line, in the form that clients of the path expect."""
    retry = {"Retry-After": "1"} if status == 503 else {}
    values = error_json(request.url.path, line)
    return Json(values, status, retry | dict(headers or {}))
