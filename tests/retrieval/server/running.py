"""A service in a process of its own, as `slimdex serve` starts it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from tempfile import TemporaryFile
from threading import Thread
from typing import Any

import httpx
import pytest
import uvicorn

from slimdex.command_line import app
from slimdex.indexes.settings import Settings
from slimdex.retrieval.cli import console
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder
from tests import forked
from tests.encoders import direction

TEXT = "the a cat dog sat slept on mat rug stocks fell sharply monday rain snow of it was"
WORDS = TEXT.split()
DIM = 24


def word_vectors(folder: Path) -> Path:
    """A model that loads in no time: a vector for each of some words."""
    path = folder / "words.txt"
    rows = (" ".join([word, *(f"{x:.5f}" for x in direction(word, DIM))]) for word in WORDS)
    path.write_text("\n".join(rows) + "\n")
    return path


def built(folder: Path, rows: Any, name: str = "notes", **settings: Any) -> Path:
    """An index of rows by those word vectors, as `slimdex build` makes it."""
    index, passages = folder / f"{name}.index", settings.pop("passages", "auto")
    encoder = StaticEncoder(str(word_vectors(folder)))
    with Collection.create(index, encoder, Settings(**settings), passages=passages) as collection:
        collection.add(rows)
    return index


class Running:
    """A service that runs; `client` calls it."""

    def __init__(self, process: Any, url: str, **client: Any) -> None:
        self.process, self.url = process, url
        self.client = httpx.Client(base_url=url, timeout=120, **client)

    def stop(self) -> int | None:
        """Tell it to stop, and wait until it has."""
        self.process.terminate()
        return forked.exit_code(self.process, 60)


@contextmanager
def serving(indexes: Sequence[object], *words: object, **client: Any) -> Iterator[Running]:
    """A service over indexes, on a free port of this machine's own."""
    command = ["serve", *map(str, indexes), "--port", "0", *map(str, words)]
    there, here = os.pipe()
    with open(os.devnull) as nothing, TemporaryFile() as said, open(there) as printed:
        process = forked.command(command, os.environ, nothing.fileno(), here, said.fileno())
        os.close(here)
        try:
            url = printed.readline().strip()
            said.seek(0)
            assert url.startswith("http"), said.read()
            running = Running(process, url, **client)
            with running.client:
                yield running
        finally:
            process.kill()
            forked.exit_code(process, 60)


@contextmanager
def serving_here(*words: object) -> Iterator[Running]:
    """A service in this process: torch, which its model needs, is imported once for all tests."""
    urls, servers = Queue[str](), list[uvicorn.Server]()

    def kept(config: uvicorn.Config, serve: type[uvicorn.Server] = uvicorn.Server) -> Any:
        servers.append(serve(config))
        return servers[0]

    command = ["serve", *map(str, words), "--port", "0"]
    thread = Thread(target=app.main, args=[command], kwargs={"standalone_mode": False}, daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "line", urls.put)
        patch.setattr(signal, "signal", lambda *_: None)  # only the main thread may set a handler
        patch.setattr(uvicorn, "Server", kept)
        thread.start()
        served = Running(None, urls.get(timeout=300))
    with served.client:
        yield served
    servers[0].should_exit = True
    thread.join(60)
