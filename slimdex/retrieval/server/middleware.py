"""Middleware: checks of every request's host, origin, token, size and duration.

It runs before the application. A connection on which an answered request's body keeps arriving is
closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slimdex.system.unicode_text import EXPECTED

from .access import Hosts, Right, Tokens
from .compression import compress_answers, decompress_body
from .limits import Limits
from .metrics import Metrics

RIGHT = "slimdex_right"
"""Key of a request's scope: rights of its caller."""
READING = "slimdex_reading"
"""Key of a request's scope: size of its body in memory."""
OPEN_PATHS = ("/", "/health", "/ready", "/docs", "/openapi.json")
OPEN_PREFIXES = ("/page/", "/docs/")
"""Paths, and prefixes of paths, that reveal nothing about the indexes and need no token."""
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")
REST_S = 5.0
"""Seconds for the rest of a body after its answer: a caller who sends all of it before reading
would lose the answer if the connection were closed at once."""
UNKNOWN = "unknown"
"""Label of all unknown paths and methods in metrics: callers may invent any number of them."""


@dataclass
class _Reading:
    """Bytes of a request's body in memory, until it is answered."""

    is_whole: bool  # True once all of it has arrived
    held: int = 0
    is_bounded: bool = True  # False once the route reads line by line, with limits per line
    is_answered: bool = False  # the answer has begun; a bounded body is no longer held then
    is_left: bool = False  # the answer has ended before the body


def guard(
    app: ASGIApp, hosts: Hosts, tokens: Tokens | None, limits: Limits, metrics: Metrics
) -> ASGIApp:
    """Put all checks in front of an application; pages of allowed origins may read the answers."""
    return CORSMiddleware(
        AccessMiddleware(compress_answers(app), hosts, tokens, limits, metrics),
        allow_origins=hosts.pages,
        allow_methods=["GET", "POST", "PUT", "DELETE"],
        allow_headers=["authorization", "content-type", "content-encoding"],
    )


class AccessMiddleware:
    """Passes a request to the application, or answers it.

    `tokens` is None if every caller may do everything except reading files.
    """

    def __init__(
        self, app: ASGIApp, hosts: Hosts, tokens: Tokens | None, limits: Limits, metrics: Metrics
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._tokens = tokens
        self._limits = limits
        self._metrics = metrics
        self._held = 0  # bytes of bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        # What the answer and the metrics need to know of the request.
        start = perf_counter()
        status = 0
        headers = dict(scope["headers"])
        has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
        reading = _Reading(is_whole=not has_body)

        # Answer HEAD as GET, without a body.
        is_head = scope["method"] == "HEAD"
        if is_head:
            scope = {**scope, "method": "GET"}  # a copy, since the server skips HEAD's body too

        # An answer that begins before the whole body has arrived closes the connection. Its end is
        # held back until the rest of the body has been discarded, below.
        async def send_answer(message: Message) -> None:
            nonlocal status
            if is_head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            if message["type"] == "http.response.start":
                status = message["status"]
                reading.is_answered = True
                if not reading.is_whole:
                    message["headers"] = [*message["headers"], (b"connection", b"close")]
            elif not reading.is_whole and not message.get("more_body", False):
                message["more_body"] = True
                reading.is_left = True
            await send(message)

        try:
            scope[RIGHT] = self._right(scope, headers)
            scope[READING] = reading
            _check_address(scope)
            body = decompress_body(headers, receive)
            await self._app(scope, self._limit_body(headers, body, reading), send_answer)
        except HTTPException as refusal:
            values = error_json(scope["path"], refusal.detail)
            retry = {"Retry-After": "1"} if refusal.status_code == 503 else {}
            answer = JSONResponse(values, refusal.status_code, retry | dict(refusal.headers or {}))
            await answer(scope, receive, send_answer)
        finally:
            self._held -= reading.held

            route = getattr(scope.get("route"), "path", UNKNOWN)
            method = "HEAD" if is_head else scope["method"]
            method = method if method in METHODS else UNKNOWN
            self._metrics.requests.labels(route, method, status).inc()
            self._metrics.seconds.labels(route).observe(perf_counter() - start)
        if reading.is_left:
            await _discard(receive)
            await send({"type": "http.response.body"})

    def _right(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Right:
        """Return the caller's right, which may be none on an open path.

        Raises `HTTPException` for an unknown host or origin, or if a required right is missing.
        """
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not self._hosts.knows(host):
            raise HTTPException(
                403,
                f"Host {host[:100]!r}; expected an address, localhost or a name of --allow-host",
            )
        if origin and not self._hosts.allows(origin, host):
            raise HTTPException(
                403, f"Origin {origin[:100]!r}; expected this page's own, or one of --cors"
            )

        # Without tokens, everybody may write.
        right = Right.WRITE
        if self._tokens is not None:
            right = self._tokens.right_of(headers.get(b"authorization", b""))
        is_open = scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_PREFIXES)
        if not right and not is_open:
            raise HTTPException(
                401,
                "expected a header Authorization: Bearer TOKEN with a token of this service",
                {"WWW-Authenticate": "Bearer"},
            )
        return right

    def _limit_body(
        self, headers: Mapping[bytes, bytes], receive: Receive, reading: _Reading
    ) -> Receive:
        """Return the callable by which the application reads the body, with its limits.

        Nothing is refused before the route reads, since only the route knows whether it streams.
        """
        limit = self._limits.body
        stated = headers.get(b"content-length", b"0")
        idle = self._limits.idle
        start = perf_counter()

        async def receive_within_limits() -> Message:
            if reading.is_bounded and stated.isdigit() and int(stated) > limit:
                raise HTTPException(
                    413, f"a body of {int(stated):,} bytes; expected {limit:,} or fewer"
                )
            if reading.is_whole or (reading.is_bounded and reading.is_answered):
                return await receive()  # the application waits for the caller to disconnect
            seconds_left = idle
            if reading.is_bounded:  # what has arrived takes room from other callers
                seconds_left = min(start + idle - perf_counter(), self._limits.stall)
            try:
                async with asyncio.timeout(seconds_left):
                    message = await receive()
            except TimeoutError:
                is_idle = seconds_left == idle
                after = f"{idle:g} s" if is_idle else f"{perf_counter() - start:.0f} s"
                raise HTTPException(
                    408, f"body incomplete after {after}; expected all of it"
                ) from None
            reading.is_whole = not message.get("more_body", False)
            if reading.is_bounded:
                self._count(reading, len(message.get("body", b"")))
            return message

        return receive_within_limits

    def _count(self, reading: _Reading, size: int) -> None:
        """Count bytes of a body in memory; raise `HTTPException` if a limit is exceeded."""
        reading.held += size
        self._held += size
        if reading.held > self._limits.body:
            raise HTTPException(413, f"a body of over {self._limits.body:,} bytes; expected fewer")
        if self._held > self._limits.bodies:
            raise HTTPException(503, f"{self._held:,} bytes of requests wait; try again later")


def error_json(path: str, line: str) -> dict[str, Any]:
    """Return the body of an answer about an error, as clients of the path expect it."""
    if path.startswith("/v1/"):  # OpenAI's
        return {
            "error": {"message": line, "type": "invalid_request_error", "code": None, "param": None}
        }
    return {"error": line}


def _check_address(scope: Scope) -> None:
    """Raise `HTTPException` for a path or query that is not UTF-8: different bytes would become one
    text.
    """
    for name, raw in (("path", scope.get("raw_path") or b""), ("query", scope["query_string"])):
        sent = unquote_to_bytes(raw)
        try:
            sent.decode()
        except UnicodeDecodeError as error:
            wrong = f"not Unicode: byte {error.start + 1:,} is wrong"
            raise HTTPException(400, f"{name} {sent[:100]!r}: {wrong}; {EXPECTED}") from error


async def _discard(receive: Receive) -> None:
    """Read the rest of a body, for a while: it is still on its way."""
    with suppress(TimeoutError):
        async with asyncio.timeout(REST_S):
            while (await receive()).get("more_body", False):
                pass


def reads_by_line(request: Request) -> None:
    """Lift the limit on the size of a request's body, for a route that reads it in parts."""
    request.scope[READING].is_bounded = False


def needs(right: Right) -> Callable[[Request], Awaitable[None]]:
    """Create a dependency of routes that raises a 403 if the caller lacks a right."""

    async def check(request: Request) -> None:
        if request.scope[RIGHT] < right:
            raise HTTPException(403, f"a token to {Right.READ.name.lower()}; expected one to write")

    return check
