"""A service in this process, asked over HTTP without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.index import Index
from slimdex.retrieval.server.access import Listening, Tokens
from slimdex.retrieval.server.app import application
from slimdex.retrieval.server.limits import Limits
from slimdex.retrieval.server.middleware import guard
from slimdex.retrieval.server.service import Service
from tests.encoders import WordEncoder

DOCUMENTS = [
    {"id": "1", "text": "the cat sat on the mat", "year": 1990, "kind": "pets"},
    {"id": "2", "text": "stocks fell sharply on monday", "year": 2001, "kind": "money"},
    {"id": "a/b c?", "text": "a dog slept on the rug", "year": 2010, "kind": "pets"},
]
WORDS = WordEncoder()


def made(path: Path, documents: Any = DOCUMENTS) -> Path:
    """An index of a bag of words; that of `DOCUMENTS` is a copy, which takes less time."""
    if documents is DOCUMENTS:
        return copytree(Path(_kept().name) / "index", path)
    return _created(path, documents)


@cache
def _kept() -> TemporaryDirectory[str]:
    """A folder with the index of `DOCUMENTS`, removed when this process ends."""
    folder = TemporaryDirectory(prefix="slimdex-tests-")
    _created(Path(folder.name) / "index", DOCUMENTS)
    return folder


def _created(path: Path, documents: Any) -> Path:
    with Collection.create(path, WordEncoder()) as collection:
        if documents:
            collection.add(documents)
    return path


@asynccontextmanager
async def asking(
    places: dict[str, Path],
    *,
    limits: Limits | None = None,
    tokens: Tokens | None = None,
    pages: Sequence[str] = (),
    encoder: WordEncoder | None = WORDS,
    reranker: Any = None,
) -> AsyncIterator[tuple[httpx.AsyncClient, Service]]:
    """A client of a service over these indexes, and the service; all is closed afterwards."""
    opened = partial(Index.open, encoder=encoder)
    service = Service.open(places, limits, reranker=reranker, open_one=opened)
    app = application(service, needs_token=tokens is not None)
    public = guard(app, Listening(tokens=tokens, pages=pages), service.metrics)
    raised: Exception | None = None
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(public, raise_app_exceptions=False),
            base_url="http://localhost",
            timeout=60,
        ) as client,
    ):
        try:
            yield client, service
        except Exception as error:  # agents' sessions end in a group of tasks, which would wrap it
            raised = error
    if raised is not None:
        raise raised
