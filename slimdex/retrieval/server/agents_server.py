"""AgentsServer: a server of tools whose errors are one line, and which ends when it is told to."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from itertools import count
from typing import Any, NoReturn, Protocol, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
import uvicorn
from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import (
    DEFAULT_MAX_REQUEST_BODY_SIZE,
    RequestBodyLimitMiddleware,
)
from mcp.types import INVALID_PARAMS, Tool
from pydantic import ValidationError, model_validator
from starlette.applications import Starlette
from starlette.routing import Route

from slimdex.errors import SlimdexError
from slimdex.system.progress import listening, throttled

from ..index import Index
from .json_rpc import check_messages, stdio_streams
from .routes.bodies import NamedValues
from .routes.failures import first_line, unknown

T = TypeVar("T")
GRACE_S = 0.4
"""Seconds for running changes once the input has ended, and none after Ctrl-C."""
DISCARD_S = 0.3
"""Seconds in which a stopped change is discarded; after that the process ends, as by a kill."""
PAUSE_S = 0.02
OFTEN_S = 0.1
"""Seconds between two reports of progress."""


class End(Protocol):
    """Function that ends this process."""

    def __call__(self, *, is_interrupted: bool) -> NoReturn:
        """End it at once; `is_interrupted` by Ctrl-C."""


class RunningChanges:
    """Changes, each in a thread, which can be stopped: no agent waits for them any more."""

    def __init__(self) -> None:
        self._scopes = set[anyio.CancelScope]()
        self._threads = 0

    async def run(self, command: Callable[[], T]) -> T:
        """Run a command; raises `SlimdexError` if it is stopped.

        A command that reports its progress ends then, and others once they are done.
        """

        def work() -> T:
            self._threads += 1
            try:
                return command()
            finally:
                self._threads -= 1

        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
            except anyio.get_cancelled_exc_class():
                scope.cancel()  # tells the thread, however its caller was cancelled
                raise
            finally:
                self._scopes.remove(scope)
        # Only a scope that `stop` has cancelled ends without a result or an error.
        raise SlimdexError("stopped: the server ends; this change may be missing")

    async def stop(self, grace: float = 0.0) -> bool:
        """Stop the changes that take longer than `grace`; return whether all have ended."""
        # Wait for those that end by themselves.
        with anyio.move_on_after(grace):
            while self._scopes:
                await anyio.sleep(PAUSE_S)

        # Stop the others, and give their threads time to discard what they have done.
        for scope in [*self._scopes]:
            scope.cancel()
        with anyio.move_on_after(DISCARD_S):
            while self._threads:
                await anyio.sleep(PAUSE_S)
        return not self._threads


def reporting(command: Callable[[Index], T], context: Context[Any, Any]) -> Callable[[Index], T]:
    """Return a command that also reports its progress to the agent, and ends if it is cancelled.

    It has to run in a thread of `RunningChanges`.
    """
    numbers = count(1)  # one number has to grow through all stages

    def send(stage: str, done: int, total: int) -> None:
        line = f"{stage}: {done:,} of {total:,}"
        anyio.from_thread.run(context.report_progress, next(numbers), None, line)

    send_throttled = throttled(send, OFTEN_S)

    def report(stage: str, done: int, total: int) -> None:
        anyio.from_thread.check_cancelled()  # raises to end a cancelled command
        send_throttled(stage, done, total)

    def run_and_report(index: Index) -> T:
        with listening(report):
            return command(index)

    return run_and_report


def is_blank(value: Any) -> bool:
    """Return whether a value stands for nothing, as models fill in optional arguments.

    >>> [is_blank(value) for value in (None, " ", ["", None], [], 0, False, ["x", ""])]
    [True, True, True, True, False, False, False]
    """
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, list) and all(map(is_blank, value)))


class Argument(NamedValues):
    """An object in an argument; blank values of optional fields are as if left out."""

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, argument: Any) -> Any:
        """Drop blank values of optional fields; keep unknown fields, so that they are refused."""
        if not isinstance(argument, dict):
            return argument
        present = {}
        for name, value in argument.items():
            field = cls.model_fields.get(name)
            is_optional = field is not None and not field.is_required()
            if not is_optional or not is_blank(value):
                present[name] = value
        return present


def plain_schema(schema: Mapping[str, Any], models: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a JSON schema without references, titles and blank defaults.

    Some clients refuse references, and all clients send each word to their model. `models` are the
    schemas that are referred to, by name.

    >>> schema = {"title": "Ids", "type": "array", "items": {"$ref": "#/$defs/Id"}, "default": []}
    >>> plain_schema(schema, {"Id": {"title": "Id", "type": "string"}})
    {'type': 'array', 'items': {'type': 'string'}}
    """
    if "$ref" in schema:
        schema = models[schema["$ref"].rpartition("/")[2]]
    plain = dict[str, Any]()
    for name, value in schema.items():
        if name == "properties":
            plain[name] = {each: plain_schema(value[each], models) for each in value}
        elif name == "items":
            plain[name] = plain_schema(value, models)
        elif name == "additionalProperties" and value is True:
            continue  # the same as leaving it out
        elif name == "default" and not value:
            continue
        elif name not in ("title", "$defs"):
            plain[name] = value
    return plain


class AgentsServer(MCPServer[Any]):
    """A server that answers every request, also wrong ones, and whose errors are one line.

    Its tools change indexes in `changes`.
    """

    def __init__(self, *names: Any, **options: Any) -> None:
        super().__init__(*names, **options)
        self.changes = RunningChanges()

    async def list_tools(self) -> list[Tool]:
        """List the tools, with plain schemas."""
        tools = await super().list_tools()
        for tool in tools:
            tool.input_schema = plain_schema(tool.input_schema, tool.input_schema.get("$defs", {}))
        return tools

    async def call_tool(self, name: str, arguments: dict[str, Any], *context: Any) -> Any:
        """Run a tool; blank arguments are as if left out. Raises `ToolError`."""
        tools = {tool.name: tool.input_schema for tool in await self.list_tools()}
        if name not in tools:
            raise ToolError(f"tool {unknown(name, tools)}")
        known = tools[name].get("properties", {})
        required = tools[name].get("required", [])
        for argument in arguments:
            if argument not in known:
                raise ToolError(f"{name}: argument {unknown(argument, known)}")

        # A blank argument counts as missing, also if it is required.
        present = {each: value for each, value in arguments.items() if not is_blank(value)}
        for argument in required:
            if argument not in present:
                raise ToolError(f"{name}: no {argument}; expected one")
        try:
            return await super().call_tool(name, present, *context)
        except ToolError as error:
            raise _in_one_line(error) from error

    async def get_prompt(self, name: str, *others: Any) -> Any:
        """Refuse: there are no prompts."""
        raise MCPError(
            INVALID_PARAMS, f"prompt {name[:100]!r}; expected none: there are no prompts"
        )

    def streamable_http_app(self, **options: Any) -> Starlette:
        """Make the application of the streamable HTTP transport, which checks all messages."""
        app = super().streamable_http_app(**options)
        for route in app.routes:
            assert isinstance(route, Route)
            route.app = RequestBodyLimitMiddleware(
                check_messages(route.app), DEFAULT_MAX_REQUEST_BODY_SIZE
            )
        return app

    def serve(self, port: int | None, end: End) -> None:
        """Serve over stdin and stdout until the input ends, or over HTTP at a port.

        `end` ends the process after Ctrl-C, or if a change can't be stopped.
        """
        anyio.run(self._serve_until_told, port, end)

    async def _serve_until_told(self, port: int | None, end: End) -> None:
        """Serve until the input ends or Ctrl-C is pressed; then stop the changes."""
        async with anyio.create_task_group() as group:
            if sys.platform != "win32":
                group.start_soon(self._end_at_interrupt, end)
            if port is None:
                await self.run_stdio_async()
            else:
                config = uvicorn.Config(self.streamable_http_app(), port=port, log_level="warning")
                await _HttpServer(config).serve()
            group.cancel_scope.cancel()
        if not await self.changes.stop():
            end(is_interrupted=False)

    async def _end_at_interrupt(self, end: End) -> None:
        """End at Ctrl-C, although threads may be reading the input."""
        with anyio.open_signal_receiver(signal.SIGINT) as interrupts:
            async for _ in interrupts:
                await self.changes.stop()
                end(is_interrupted=True)

    async def run_stdio_async(self) -> None:
        """Serve over stdin and stdout; all requests are answered before the end."""
        self.streamable_http_app()  # makes the session manager, which has the server
        server = self.session_manager.app
        async with stdio_streams(self._stop_changes) as (messages, answers):
            await server.run(messages, answers, server.create_initialization_options())

    async def _stop_changes(self) -> None:
        await self.changes.stop(GRACE_S)


class _HttpServer(uvicorn.Server):
    """A server that leaves Ctrl-C to others."""

    def capture_signals(self) -> Any:
        """Capture none."""
        return nullcontext()


def _in_one_line(error: ToolError) -> ToolError:
    """Return an error with only the message of its cause, on one line.

    The error of a bug is returned unchanged; the library has printed it on stderr.
    """
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        # `first_line` drops the first part of a location, usually "body", so put one in front.
        first, *others = cause.errors()
        line = first_line([{**first, "loc": ("arguments", *first["loc"])}, *others])
    elif isinstance(cause, SlimdexError | OSError | ToolError):
        line = str(cause)
    else:
        return error
    return ToolError(" ".join(line.split()))
