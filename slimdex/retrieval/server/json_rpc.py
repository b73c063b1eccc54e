"""Messages of JSON-RPC, checked before the tools' server reads them.

The server's library drops what it can't read, and its caller waits. Here each request that is
wrong is answered with an error, with the request's id if it has a valid one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import TextIOWrapper
from typing import Any

from anyio import AsyncFile
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from slimdex.indexes.errors import InputError, shortened_repr
from slimdex.indexes.json_text import received

ANSWERS = ("result", "error")
"""Members of a response, which is not answered."""


class _Refused(Exception):
    """A message's error code, and the reason."""


def refusal(data: bytes) -> JSONRPCError | None:
    """Return the error that answers a message; None if it is valid.

    >>> refusal(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
    >>> refusal(b'{"jsonrpc": "2.0", "id": 1}').error
    ErrorData(code=-32600, message='method: missing; expected the name of a method', data=None)
    """
    try:
        _check(received(data, "the message"))
    except InputError as error:
        code, reason = PARSE_ERROR, str(error)
    except _Refused as refused:
        code, reason = refused.args
    else:
        return None
    about = ErrorData(code=code, message=" ".join(reason.split()))
    return JSONRPCError(jsonrpc="2.0", id=_id_of(data), error=about)


def _check(message: Any) -> None:
    """Raise `_Refused` unless a value is a request, a notification or a response."""
    if not isinstance(message, dict):
        kind = "a batch" if isinstance(message, list) else shortened_repr(message)
        raise _Refused(INVALID_REQUEST, f"{kind}; expected one message, a JSON object")
    if message.get("jsonrpc") != "2.0":
        raise _Refused(INVALID_REQUEST, _wrong(message, "jsonrpc", "'2.0'"))
    is_answer = "method" not in message and any(name in message for name in ANSWERS)
    has_id = "id" in message and not (is_answer and "error" in message)  # whose id may be null
    if has_id and not _is_id(message["id"]):
        raise _Refused(INVALID_REQUEST, _wrong(message, "id", "a text or a whole number"))
    if not is_answer:
        if not isinstance(message.get("method"), str):
            raise _Refused(INVALID_REQUEST, _wrong(message, "method", "the name of a method"))
        if not isinstance(message.get("params", {}), dict):
            raise _Refused(INVALID_PARAMS, _wrong(message, "params", "a JSON object"))
    try:
        jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError as error:
        raise _Refused(INVALID_REQUEST, "no response; expected a result or an error") from error


def _wrong(message: dict[str, Any], member: str, expected: str) -> str:
    given = shortened_repr(message[member]) if member in message else "missing"
    return f"{member}: {given}; expected {expected}"


def _is_id(id: Any) -> bool:
    return isinstance(id, str | int) and not isinstance(id, bool)


def _id_of(data: bytes) -> str | int | None:
    """The id of a message that may be wrong otherwise; None if it has no valid one."""
    try:
        message = json.loads(data.decode(errors="replace"))
        id = message["id"]
        str(id).encode()
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return id if _is_id(id) else None


class CheckedLines(AsyncFile[str]):
    """Lines of a stream of bytes that are valid messages; the others are answered."""

    answers: Any = None  # a stream to send errors to, set before the first line is read

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the messages."""
        async for line in super().__aiter__():
            data = line.encode("utf-8", "surrogateescape")
            if not data.strip():
                continue
            if (error := refusal(data)) is None:
                yield line
            else:
                await self.answers.send(SessionMessage(error))


@asynccontextmanager
async def checked_stdio() -> AsyncIterator[tuple[Any, Any]]:
    """Streams of messages from stdin and to stdout, as `stdio_server` makes them.

    Meanwhile other code in this process, and programs that it starts, read nothing from stdin.
    """
    own = os.dup(sys.stdin.fileno())
    with (
        open(os.devnull) as nothing,
        TextIOWrapper(
            os.fdopen(own, "rb"), encoding="utf-8", errors="surrogateescape", newline="\n"
        ) as text,
    ):
        os.dup2(nothing.fileno(), sys.stdin.fileno())
        lines = CheckedLines(text)
        try:
            async with stdio_server(stdin=lines) as (messages, answers):
                lines.answers = answers
                yield messages, answers
        finally:
            os.dup2(own, sys.stdin.fileno())


def checked_messages(app: ASGIApp) -> ASGIApp:
    """An ASGI application whose POSTs are valid messages; the others are answered."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        if (error := refusal(body)) is not None:
            text = error.model_dump_json(by_alias=True, exclude_unset=True)
            await Response(text, 400, media_type="application/json")(scope, receive, send)
            return
        parts = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Any:
            return next(parts, None) or await receive()

        await app(scope, again, send)

    return checked
