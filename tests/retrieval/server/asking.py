"""A service in this process, asked over HTTP without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx

from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.server.app import application
from slimdex.retrieval.server.gate import Gate
from slimdex.retrieval.server.hosts import Hosts
from slimdex.retrieval.server.limits import Limits
from slimdex.retrieval.server.service import Service
from slimdex.retrieval.server.tokens import Tokens
from tests.encoders import WordEncoder

T = TypeVar("T")
DOCUMENTS = [
    {"id": "1", "text": "the cat sat on the mat", "year": 1990, "kind": "pets"},
    {"id": "2", "text": "stocks fell sharply on monday", "year": 2001, "kind": "money"},
    {"id": "a/b c?", "text": "a dog slept on the rug", "year": 2010, "kind": "pets"},
]


def made(path: Path, documents: Any = DOCUMENTS) -> Path:
    """An index of a bag of words."""
    with Collection.create(path, WordEncoder()) as collection:
        if documents:
            collection.add(documents)
    return path


def asked(
    places: dict[str, Path],
    ask: Callable[[httpx.AsyncClient, Service], Awaitable[T]],
    *,
    limits: Limits | None = None,
    folders: tuple[Path, ...] = (),
    tokens: Tokens | None = None,
    hosts: Hosts | None = None,
) -> T:
    """What a function makes of a client of a service over these indexes; all is closed then."""

    async def run() -> T | BaseException:
        opened = partial(Collection.open, encoder=WordEncoder())
        service = Service.open(places, limits, folders, open_one=opened)
        app = application(service)
        gate = Gate(app, hosts or Hosts(), tokens, service.limits, service.metrics)
        async with (
            service.life(),
            app.state.agents.session_manager.run(),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(gate, raise_app_exceptions=False),
                base_url="http://localhost",
                timeout=60,
            ) as client,
        ):
            # returned, since agents' sessions end in a group of tasks, which wraps what is raised
            return (await asyncio.gather(ask(client, service), return_exceptions=True))[0]

    answer = asyncio.run(run())
    if isinstance(answer, BaseException):
        raise answer
    return answer
