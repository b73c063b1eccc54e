"""Middleware: what every request passes before the application, and limits of its body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .access import Listening, Right
from .metrics import Metrics

RIGHT = "slimdex_right"
"""Key of a request's scope: rights of its caller."""
OPEN_PATHS = ("/", "/health", "/ready", "/docs", "/openapi.json")
OPEN_PREFIXES = ("/page/", "/docs/")
"""Paths, and prefixes of paths, that reveal nothing about the indexes and need no token."""
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")
UNKNOWN = "unknown"
"""Label of all unknown paths and methods in metrics: callers may invent any number of them."""


def guard(app: ASGIApp, listening: Listening, metrics: Metrics) -> ASGIApp:
    """Put all checks in front of an application; pages of allowed origins may read the answers."""
    app = AccessMiddleware(GZipMiddleware(app, compresslevel=4), listening, metrics)
    # A page can make its own name resolve to this machine (DNS rebinding), but has no token.
    if listening.tokens is None:
        app = TrustedHostMiddleware(app, ["localhost", "127.0.0.1", "[::1]", listening.host])
    return CORSMiddleware(
        app,
        allow_origins=listening.pages,
        allow_methods=["GET", "POST", "PUT", "DELETE"],
        allow_headers=["authorization", "content-type"],
    )


class AccessMiddleware:
    """Passes a request to the application if its origin and token are right, and counts it."""

    def __init__(self, app: ASGIApp, listening: Listening, metrics: Metrics) -> None:
        self._app = app
        self._listening = listening
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = perf_counter()
        status = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            answer = self._refusal(scope) or self._app
            await answer(scope, receive, send_and_note)
        finally:
            route = getattr(scope.get("route"), "path", UNKNOWN)
            method = scope["method"] if scope["method"] in METHODS else UNKNOWN
            self._metrics.requests.labels(route, method, status).inc()
            self._metrics.seconds.labels(route).observe(perf_counter() - start)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that may not pass; else note its caller's right."""
        headers = Headers(scope=scope)
        pages = self._listening.pages
        origin = headers.get("origin", "")
        is_own = origin.partition("://")[2] == headers.get("host")
        if origin and not is_own and origin not in pages and "*" not in pages:
            line = f"Origin {origin[:100]!r}; expected this page's own, or one of --cors"
            return JSONResponse(error_json(scope["path"], line), 403)

        # Without tokens, everybody may write.
        tokens = self._listening.tokens
        right = Right.WRITE
        if tokens is not None:
            right = tokens.right_of(headers.get("authorization", ""))
        is_open = scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_PREFIXES)
        if not right and not is_open:
            line = "expected a header Authorization: Bearer TOKEN with a token of this service"
            return JSONResponse(
                error_json(scope["path"], line), 401, {"WWW-Authenticate": "Bearer"}
            )
        scope[RIGHT] = right
        return None


def error_json(path: str, line: str) -> dict[str, Any]:
    """Return the body of an answer about an error, as clients of the path expect it."""
    if path.startswith("/v1/"):  # OpenAI's
        return {
            "error": {"message": line, "type": "invalid_request_error", "code": None, "param": None}
        }
    return {"error": line}


def within(receive: Receive, most: int, seconds: float) -> Receive:
    """Return the callable that receives a body of at most `most` bytes, each part in `seconds`.

    It raises `HTTPException`, 413 or 408.
    """
    size = 0

    async def receive_part() -> Message:
        nonlocal size
        try:
            async with asyncio.timeout(seconds):
                message = await receive()
        except TimeoutError:
            line = f"body incomplete after {seconds:g} s without more of it; expected all of it"
            raise HTTPException(408, line) from None
        size += len(message.get("body", b""))
        if size > most:
            raise HTTPException(413, f"a body of over {most:,} bytes; expected fewer")
        return message

    return receive_part


def needs(right: Right) -> Callable[[Request], Awaitable[None]]:
    """Create a dependency of routes that raises a 403 if the caller lacks a right."""

    async def check(request: Request) -> None:
        if request.scope[RIGHT] < right:
            raise HTTPException(403, f"a token to {Right.READ.name.lower()}; expected one to write")

    return check
