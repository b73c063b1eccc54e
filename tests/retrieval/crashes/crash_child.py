"""Builds an index, or adds to one, and kills itself, really, at the n-th durable step.

A step is anything that changes what a later process would find: an fsync, a rename, a removal,
a file written by FAISS or safetensors, or attached to DuckDB, the end of DuckDB's transaction, a
checkpoint. Each counts twice, before it happens and after. Files in memory, which tantivy's threads
and other processes create and remove at any time, don't count, nor do files that don't exist.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import faiss

from slimdex.indexes import tensors
from slimdex.indexes.reducers import linear, moments
from slimdex.indexes.search import rescoring
from slimdex.indexes.settings import Settings
from slimdex.retrieval.catalog import engine
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import encoded_texts, encoding, preparing, replacing
from slimdex.retrieval.temporary_files import MEMORY
from tests.encoders import ReadingEncoder, WordEncoder

BASE = [Document(str(i), f"word{i} word{i % 7} text", metadata={"n": i}) for i in range(40)]
MORE = [Document(f"new{i}", f"other{i} text of {i % 5}") for i in range(12)]
"""Too few for other settings, so that the addition alone refits nothing."""


LONG = [
    Document(d.id, " ".join(f"{d.text} {j}." for j in range(6)) if i % 3 == 0 else d.text)
    for i, d in enumerate(BASE)
]
"""Every third is of two passages."""


def build_long(path: Path, stored: str) -> None:
    with Collection.create(path, ReadingEncoder(), vector_dtype=stored) as collection:
        collection.add(LONG)


def build(path: Path, stored: str) -> None:
    with Collection.create(path, WordEncoder(), vector_dtype=stored) as collection:
        collection.add(BASE)


def refit(path: Path, stored: str) -> None:
    """An addition, and a fit after it."""
    with Collection.open(path, WordEncoder(8)) as collection:
        assert collection.state.stored == stored
        assert collection.add(MORE, refit="always").refitted


FLAT = Settings(kind="flat")


def replace_vectors(path: Path, stored: str) -> None:
    """All documents encoded again by another encoder."""
    with Collection.open(path, WordEncoder()) as collection:
        assert collection.state.stored == stored
        assert collection.reencode(WordEncoder(40)).finished


def run(
    path: Path,
    stored: str,
    kill_at: int,
    to_parent: Connection,
    change: Callable[[Path, str], None] = build,
) -> None:
    """Make a change; tell the parent how many steps there were, if we live to."""
    encoding.WINDOW = replacing.WINDOW = 16
    preparing.FEW = 0
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def unlink(path: str, *, dir_fd: int | None = None) -> None:
        folder = Path(path).parent if dir_fd is None else Path(f"/dev/fd/{dir_fd}").resolve()
        is_step = (folder / Path(path).name).exists() and not folder.is_relative_to(MEMORY)
        (remove_in_steps if is_step else remove)(path, dir_fd=dir_fd)

    def stepped(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            step()
            result = function(*args, **options)
            step()
            return result

        return wrapper

    remove, remove_in_steps = os.unlink, stepped(os.unlink)
    setattr(os, "unlink", unlink)  # noqa: B010
    for name in ("fsync", "replace"):
        setattr(os, name, stepped(getattr(os, name)))
    for module in (moments, linear, rescoring, encoded_texts):
        setattr(module, "save_tensors", stepped(tensors.save_tensors))  # noqa: B010
    setattr(faiss, "write_index", stepped(faiss.write_index))  # noqa: B010

    started = engine.started
    setattr(engine, "started", lambda folder: _Stepping(started(folder), step))  # noqa: B010
    change(path, stored)
    to_parent.send(steps)


class _Stepping:
    """A DuckDB connection that counts transactions and checkpoints."""

    def __init__(self, connection: Any, step: Callable[[], None]) -> None:
        self._connection, self._step = connection, step

    def execute(self, sql: str, *values: Any) -> Any:
        if not sql.startswith(("COMMIT", "CHECKPOINT", "ATTACH", "DETACH")):
            return self._connection.execute(sql, *values)
        self._step()
        result = self._connection.execute(sql, *values)
        self._step()
        return result

    def cursor(self) -> _Stepping:
        return _Stepping(self._connection.cursor(), self._step)

    def __enter__(self) -> _Stepping:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)
