"""The application: its routes, errors as one line of JSON, and a process that serves it.

One process per index answers all callers. OpenVINO, FAISS and DuckDB use threads on all cores, and
concurrent queries form one batch: several processes would each hold the model and the codes in
memory, and split the batches.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.security import HTTPBearer
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.routing import Route

from slimdex.errors import InputError, SlimdexError

from .access import Listening
from .mcp_tools import Tools, agents_server
from .middleware import error_json, guard
from .routes import change, openai, pages, search, upload
from .routes.bodies import Json
from .routes.failures import first_line, status_and_message
from .service import Service

TOKEN = HTTPBearer(scheme_name="token", auto_error=False)
CONNECTIONS = 4096
"""Open connections; further ones are answered with 503 and closed."""
ABOUT = """Semantic search in a fraction of the memory. An error is `{"error": "one line"}`."""


def application(
    service: Service, started: Callable[[], None] = lambda: None, *, needs_token: bool = False
) -> FastAPI:
    """Create the application, without the middleware in front of it.

    Its lifespan calls `started`, and at the end closes the indexes. `needs_token` describes that
    requests need a token, which the middleware checks.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with service.life(), agents.session_manager.run():
            started()
            yield

    app = FastAPI(
        title="slimdex",
        version=version("slimdex"),
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        generate_unique_id_function=lambda route: route.name,
        dependencies=[Depends(TOKEN)] if needs_token else [],
        lifespan=lifespan,
    )
    app.state.service = service

    # Routes.
    for module in (search, openai, pages, change, upload):
        app.include_router(module.routes)
    agents = agents_server(Tools(service.indexes.keys(), service.read))
    no_checks = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # done in front
    agents.streamable_http_app(
        json_response=True,
        stateless_http=True,
        transport_security=no_checks,
        max_request_body_size=service.limits.body,
    )
    endpoint = StreamableHTTPASGIApp(agents.session_manager)
    app.router.routes.append(Route("/mcp", endpoint, methods=["POST"]))  # GET's stream never ends

    # Errors.
    app.add_exception_handler(RequestValidationError, _misread)
    for kind in (HTTPException, SlimdexError, OSError, Exception):
        app.add_exception_handler(kind, _answer_error)
    return app


def run(
    service: Service, listening: Listening, started: Callable[[str], None] = lambda url: None
) -> None:
    """Serve until SIGINT or SIGTERM, then finish running requests and close the indexes.

    `started` is called with the URL once requests are accepted. Raises `InputError` if the address
    or the certificate can't be used.
    """
    app = application(
        service, lambda: started(listening.url(tcp)), needs_token=listening.tokens is not None
    )
    config = uvicorn.Config(
        guard(app, listening, service.metrics),
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
        limit_concurrency=CONNECTIONS,
        lifespan="on",
    )
    try:
        config.load()
    except OSError as error:
        raise InputError(
            f"{listening.certificate}: {error}; expected a certificate with its key, in PEM"
        ) from error
    tcp = listening.listen()
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
    status, line = status_and_message(error, request.app.state.service)
    return _answer(request, status, line, getattr(error, "headers", None))


def _answer(
    request: Request, status: int, line: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer an error with one line, in the form that clients of the path expect."""
    retry = {"Retry-After": "1"} if status == 503 else {}
    return Json(error_json(request.url.path, line), status, retry | dict(headers or {}))
