"""A service in a process of its own, as `slimdex serve` starts it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder
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


def slimdex(*words: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """A command line, run to its end."""
    return subprocess.run(
        [sys.executable, "-m", "slimdex", *map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


class Running:
    """A service that runs; `client` calls it."""

    def __init__(self, process: subprocess.Popen[str], url: str, **client: Any) -> None:
        self.process, self.url = process, url
        self.client = httpx.Client(base_url=url, timeout=120, **client)

    def stop(self) -> int:
        """Tell it to stop, and wait until it has."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def serving(indexes: Sequence[object], *words: object, **client: Any) -> Iterator[Running]:
    """A service over indexes, on a free port of this machine's own."""
    command = [sys.executable, "-m", "slimdex", "serve", *map(str, indexes), "--port", "0"]
    with subprocess.Popen(
        [*command, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            url = process.stdout.readline().strip()
            assert url.startswith("http"), process.stderr.read()
            running = Running(process, url, **client)
            with running.client:
                yield running
        finally:
            process.kill()


def unit(rows: Any) -> Any:
    """Rows of length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
