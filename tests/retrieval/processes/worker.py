"""Processes that carry out orders on an index, and may be killed in the middle of one.

Started as a program, this module forks them; with `faults.c` preloaded, a worker can be killed at
the n-th call that changes a file.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.adding import sync
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.sources.source import Sources
from slimdex.retrieval.store import derived_files
from slimdex.retrieval.store.snapshot import Snapshot
from tests.encoders import WordEncoder
from tests.retrieval.crashes.faults import preloaded

DIM = 16
REFUSED = "refused"
TOO_LONG = 600
"""Seconds, for a worker that hangs: no measure of a slow machine's work."""
QUERY = "tea cake rain"
ANY = 127 | 256
"""All kinds of calls of `faults.c`."""
SETTINGS = [
    Settings(kind="flat", gamma=0.0, reducer="identity", candidates=0),
    Settings(kind="fp16", gamma=0.0, reducer="identity", candidates=0),
    Settings(kind="sq8", gamma=0.0, reducer="random", k=8),
    Settings(kind="flat", gamma=0.0, reducer="truncate", k=4),
]
"""Their metric is the plain cosine, which needs no code of ours."""
Order = tuple[Any, ...]
"""Name of an operation, and its values."""


def opened(path: Path) -> Collection:
    return Collection.open(path, WordEncoder(DIM), wait=TOO_LONG)


def put(collection: Collection, documents: dict[str, str]) -> Any:
    added = collection.add(
        [Document(id, text, metadata={"n": len(text)}) for id, text in documents.items()]
    )
    return added.documents, added.replaced, added.unchanged


def sync_with(collection: Collection, name: str, documents: dict[str, str]) -> Any:
    """Bring the collection up to date with a file of these documents."""
    source = collection.path.parent / f"{name}.jsonl"
    lines = [{"id": id, "text": text, "n": len(text)} for id, text in documents.items()]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sync(collection.index, Sources.open(str(source)))


def search(collection: Collection, where: str | None) -> Any:
    """The documents of all hits, whose scores must be those of their texts."""
    hits = collection.search(QUERY, limit=1000, where=where, hybrid="off")
    query, *texts = WordEncoder(DIM).encode([QUERY, *(hit.text for hit in hits)])
    for hit, x in zip(hits, texts, strict=True):
        expected = float(query @ x / np.linalg.norm(query) / np.linalg.norm(x))
        assert abs(hit.score - expected) < 4e-3, f"{hit}; expected a score of {expected}"
        assert hit.metadata["n"] == len(hit.text), hit
    assert len({hit.id for hit in hits}) == len(hits), hits
    return tuple(sorted((hit.id, hit.text) for hit in hits))


def search_words(collection: Collection, word: str) -> Any:
    hits = collection.search(word, limit=1000, hybrid=1.0)
    return tuple(sorted((hit.id, hit.text) for hit in hits if hit.found_by != "meaning"))


def see(collection: Collection) -> Any:
    """Version and documents of one snapshot."""

    def seen(snapshot: Snapshot) -> Any:
        every = sorted((each.id, each.text) for each in snapshot.open().every_document())
        return snapshot.state.version, tuple(every)

    return collection.index.read(seen)


def see_copy(collection: Collection) -> Any:
    """The same of a copy, which is sound."""
    with tempfile.TemporaryDirectory() as folder:
        collection.copy_to(Path(folder) / "copy")
        assert verify(Path(folder) / "copy") == []
        with opened(Path(folder) / "copy") as copy:
            return see(copy)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "put": put,
    "sync": sync_with,
    "delete": lambda collection, ids: collection.delete(ids),
    "delete where": lambda collection, n: collection.delete(where=f"n >= {n} AND id <> 'first'"),
    "compact": lambda collection: (collection.compact(), None)[1],
    "reduce": lambda collection, i: (collection.reduce(SETTINGS[i]), None)[1],
    "words": lambda collection, on: collection.index_lexical(on),
    "search": search,
    "search words": search_words,
    "get": lambda collection, ids: tuple(each.text for each in collection.get(ids)),
    "count": lambda collection, n: collection.count(f"n >= {n}"),
    "see": see,
    "see copy": see_copy,
}


def work(path: Path, orders: Connection) -> None:
    """Carry out what is ordered; send versions before and after, result, and any error."""
    vars(derived_files).update(MOST_LATE=2)  # the words of more are written before the turn
    faults = ctypes.CDLL(None)
    collection = opened(path)
    orders.send(os.getpid())
    while True:
        (name, *values), kill = orders.recv()
        signal.alarm(TOO_LONG)
        if name == "reopen":
            collection.close()
            collection = opened(path)
        if kill is not None:
            at, action = kill
            faults.faults_arm(
                *(os.fsencode(path), action, ANY, ctypes.c_long(at), 0, 0),
                *(ctypes.c_double(0.5), b""),
            )
        before, result, fault = collection.version, None, ""
        try:
            do = OPERATIONS.get(name)
            result = do(collection, *values) if do else None
        except InputError as error:
            result = REFUSED if "unknown id" in str(error) or "lexical" in str(error) else None
            fault = "" if result else repr(error)
        except Exception:
            fault = traceback.format_exc()
        if kill is not None:
            faults.faults_disarm()
        orders.send((before, collection.version, result, fault))


class Worker:
    """A worker, as seen by the test.

    Attributes
    ----------
    is_gone : True once it was killed.
    """

    def __init__(self, orders: Connection) -> None:
        self._orders, self.is_gone = orders, False
        self._timer: threading.Timer | None = None
        self._process: int = orders.recv()

    def begin(
        self, order: Order, kill: tuple[int, int] | None = None, delay: float | None = None
    ) -> None:
        """Send an order; the worker is killed at a call, or after a delay in seconds."""
        self._orders.send((order, kill))
        if delay is not None:
            self._timer = threading.Timer(delay, self.kill)
            self._timer.start()

    def end(self) -> Any:
        """Wait for the worker's answer; None if it was killed before."""
        try:
            return self._orders.recv()
        except (EOFError, ConnectionResetError):
            self.is_gone = True
            return None
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer.join()
                self._timer = None

    def has_ended(self) -> bool:
        """True if `end` need not wait."""
        return self._orders.poll()

    def kill(self) -> None:
        self.is_gone = True
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self._orders.close()


class Workers:
    """A process that forks workers, by default without `faults.c`."""

    def __init__(self, folder: Path, library: Path | None = None) -> None:
        self._listener = Listener(str(folder / "orders.socket"))
        words = "tests.retrieval.processes.worker", self._listener.address
        self._process = preloaded(*words, library=library)

    def end(self) -> None:
        self._process.communicate()
        self._listener.close()

    def started(self, path: Path) -> Worker:
        """Start a worker on an index."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        return Worker(self._listener.accept())


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for workers
    address = sys.argv[1]
    for line in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                with Client(address) as orders:
                    work(Path(line.rstrip("\n")), orders)
            except (EOFError, ConnectionResetError):  # the test has ended
                pass
            finally:
                os._exit(0)


if __name__ == "__main__":
    main()
