"""Real servers for tests: the embedded one in a process of its own, and processes that push."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from slimdex.errors import InputError
from slimdex.retrieval.cluster.milvus_server import Server

SERVE = "import sys; from milvus_lite.adapter.grpc.server import run_server; \
run_server(sys.argv[1], host='127.0.0.1', port=int(sys.argv[2]))"
PUSH = """
import sys
from slimdex.system.progress import listening
from slimdex.retrieval.cluster.milvus_push import push
from slimdex.retrieval.cluster.milvus_server import Server
from slimdex.retrieval.collection import Collection
with Collection.open(sys.argv[1]) as collection, Server(sys.argv[2]) as server:
    with listening(lambda *said: print(*said, flush=True)):
        push(collection.index, server)
"""
STARTS_SECONDS = 120


def await_server(uri: str) -> Server:
    """A server that may have been started just now."""
    end = monotonic() + STARTS_SECONDS
    while True:
        try:
            return Server(uri)
        except InputError:
            if monotonic() >= end:
                raise
        sleep(0.1)


class Process:
    """A server in a process that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._port = folder, free_port()
        self.uri = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        """Begin, or begin again on the same folder."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(self.folder), str(self._port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        await_server(self.uri)

    def kill(self) -> None:
        """With no time to write anything."""
        self._process.kill()
        self._process.wait()


@contextmanager
def server_process(folder: Path) -> Iterator[Process]:
    process = Process(folder)
    try:
        yield process
    finally:
        process.kill()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def pushing(index: Path, uri: str) -> subprocess.Popen[str]:
    """A process that pushes, and says how far it is."""
    return subprocess.Popen(
        [sys.executable, "-c", PUSH, str(index), uri],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
