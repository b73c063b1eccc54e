"""Requests with strict JSON: no duplicate keys, and limited nesting."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from slimdex.indexes.json_text import DuplicateKeyError, TooDeepError, parsed


class JsonRequest(Request):
    """A request that refuses JSON with duplicate keys or deep nesting."""

    async def json(self) -> Any:
        """Parse the body; raises `json.JSONDecodeError`, which FastAPI answers."""
        body = await self.body()
        try:
            return parsed(body.decode())
        except (DuplicateKeyError, TooDeepError, UnicodeDecodeError) as error:
            raise json.JSONDecodeError(str(error), "", 0) from error


class JsonRoute(APIRoute):
    """A route that uses `JsonRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Create the handler of requests."""
        answer = super().get_route_handler()

        async def read(request: Request) -> Response:
            return await answer(JsonRequest(request.scope, request.receive))

        return read
