"""A forked process opens connections of its own: on the parent's, answers would be mixed up."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from slimdex.retrieval.encoders.over_http.connection import JsonServer


class Handler(BaseHTTPRequestHandler):
    """Answers with the number of the connection that asks."""

    protocol_version = "HTTP/1.1"
    opened = 0

    def setup(self) -> None:
        super().setup()
        Handler.opened += 1
        self.number = Handler.opened

    def do_GET(self) -> None:
        body = str(self.number).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_connections_stay_with_the_process_that_has_opened_them(url: str) -> None:
    server = JsonServer(url)
    mine = server.ask("/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about threads
        child = os.fork()
    if not child:  # pragma: no cover - another process
        signal.alarm(30)
        try:
            own = server.ask("/")
            os._exit(int(own == mine or server.ask("/") != own))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert server.ask("/") == mine
