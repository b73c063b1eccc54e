"""Messages of JSON-RPC, checked before the tools' server reads them.

The server's library drops what it can't read, and its caller waits. Here each request that is
wrong is answered with an error, with the request's id if it has a valid one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import TextIOWrapper
from typing import Any

import anyio
import anyio.to_thread
from anyio import AsyncFile
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from slimdex.errors import InputError, short_repr
from slimdex.system.json_text import parse_request_json

ANSWERS = ("result", "error")
"""Members of a response, which is not answered."""
CANCELLED = "notifications/cancelled"


class _MessageError(Exception):
    """A message's error code, and the reason."""


def refusal(data: bytes) -> JSONRPCError | None:
    """Return the error that answers a message; None if it is valid.

    >>> refusal(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
    >>> refusal(b'{"jsonrpc": "2.0", "id": 1}').error
    ErrorData(code=-32600, message='method: missing; expected the name of a method', data=None)
    """
    try:
        _check(parse_request_json(data, "the message"))
    except InputError as error:
        code = PARSE_ERROR
        reason = str(error)
    except _MessageError as refused:
        code, reason = refused.args
    else:
        return None
    about = ErrorData(code=code, message=" ".join(reason.split()))
    return JSONRPCError(jsonrpc="2.0", id=_id_of(data), error=about)


def _check(message: Any) -> None:
    """Raise `_MessageError` unless a value is a request, a notification or a response."""
    if not isinstance(message, dict):
        kind = "a batch" if isinstance(message, list) else short_repr(message)
        raise _MessageError(INVALID_REQUEST, f"{kind}; expected one message, a JSON object")
    if message.get("jsonrpc") != "2.0":
        raise _MessageError(INVALID_REQUEST, _wrong(message, "jsonrpc", "'2.0'"))
    is_answer = "method" not in message and any(name in message for name in ANSWERS)
    is_error = is_answer and "error" in message  # its id may be null
    if "id" in message and not is_error and not _is_id(message["id"]):
        raise _MessageError(INVALID_REQUEST, _wrong(message, "id", "a text or a whole number"))
    if not is_answer:
        if not isinstance(message.get("method"), str):
            raise _MessageError(INVALID_REQUEST, _wrong(message, "method", "the name of a method"))
        if not isinstance(message.get("params", {}), dict):
            raise _MessageError(INVALID_PARAMS, _wrong(message, "params", "a JSON object"))
    try:
        jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError as error:
        raise _MessageError(
            INVALID_REQUEST, "no response; expected a result or an error"
        ) from error


def _wrong(message: dict[str, Any], member: str, expected: str) -> str:
    """Return the error message for a wrong or missing member."""
    shown = short_repr(message[member]) if member in message else "missing"
    return f"{member}: {shown}; expected {expected}"


def _is_id(id: Any) -> bool:
    """Return whether a value is a text or an integer; True and False are neither."""
    return isinstance(id, str | int) and not isinstance(id, bool)


def _id_of(data: bytes) -> str | int | None:
    """Return the id of a message that may be invalid; None if it has no valid id."""
    try:
        message = json.loads(data.decode(errors="replace"))
        id = message["id"]
        str(id).encode()  # fails for lone surrogates, which an answer can't contain
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return id if _is_id(id) else None


class CheckedLines(AsyncFile[str]):
    """Lines of a text that are valid messages; the others are answered.

    After the last one `at_end` is called, and the lines end once all requests are answered: the
    library drops those that still run then.

    Attributes
    ----------
    answers : a stream to send errors to, set before the first line is read.
    """

    answers: Any = None

    def __init__(self, text: TextIOWrapper, at_end: Callable[[], Awaitable[None]]) -> None:
        super().__init__(text)
        self._text = text
        self._at_end = at_end
        self._unanswered = set[str | int]()
        self._answered = anyio.Event()

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the messages."""
        while line := await anyio.to_thread.run_sync(self._text.readline, abandon_on_cancel=True):
            data = line.encode("utf-8", "surrogateescape")
            if not data.strip():
                continue
            error = refusal(data)
            if error is None:
                self._note(json.loads(data))
                yield line
            else:
                await self.answers.send(SessionMessage(error))

        # The input has ended: wait until all requests have their answers.
        await self._at_end()
        while self._unanswered:
            self._answered = anyio.Event()
            await self._answered.wait()

    def _note(self, message: dict[str, Any]) -> None:
        """Note a request as unanswered, or as answered if its caller has cancelled it."""
        if message.get("method") == CANCELLED:
            self.note_answer(message.get("params", {}).get("requestId"))
        elif "method" in message and "id" in message:
            self._unanswered.add(message["id"])

    def note_answer(self, id: Any) -> None:
        """Note that a request has its answer."""
        if _is_id(id):
            self._unanswered.discard(id)
            self._answered.set()


class _NotedAnswers:
    """A stream of answers that reports each one to the lines read."""

    def __init__(self, answers: Any, lines: CheckedLines) -> None:
        self._answers = answers
        self._lines = lines

    async def send(self, message: SessionMessage) -> None:
        """Send a message."""
        await self._answers.send(message)
        if isinstance(message.message, JSONRPCResponse | JSONRPCError):
            self._lines.note_answer(message.message.id)

    async def aclose(self) -> None:
        """End the stream."""
        await self._answers.aclose()

    async def __aenter__(self) -> _NotedAnswers:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


@asynccontextmanager
async def stdio_streams(at_end: Callable[[], Awaitable[None]]) -> AsyncIterator[tuple[Any, Any]]:
    """Yield streams of messages from stdin and to stdout, as `stdio_server` makes them.

    Meanwhile other code in this process, and programs that it starts, read nothing from stdin.
    `at_end` is called when the input has ended; requests that run are then still answered.
    """
    input = os.dup(sys.stdin.fileno())
    with (
        open(os.devnull) as nothing,
        TextIOWrapper(
            os.fdopen(input, "rb"), encoding="utf-8", errors="surrogateescape", newline="\n"
        ) as text,
    ):
        os.dup2(nothing.fileno(), sys.stdin.fileno())
        lines = CheckedLines(text, at_end)
        try:
            async with stdio_server(stdin=lines) as (messages, answers):
                lines.answers = answers
                yield messages, _NotedAnswers(answers, lines)
        finally:
            os.dup2(input, sys.stdin.fileno())


def check_messages(app: ASGIApp) -> ASGIApp:
    """Return an application that passes on valid messages, and answers others with an error."""

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        error = refusal(body)
        if error is not None:
            text = error.model_dump_json(by_alias=True, exclude_unset=True)
            await Response(text, 400, media_type="application/json")(scope, receive, send)
            return

        # The body has been read: pass it on as one message, then whatever follows.
        parts = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive_again() -> Any:
            return next(parts, None) or await receive()

        await app(scope, receive_again, send)

    return check
