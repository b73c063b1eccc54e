"""A proxy before a real server, which injects faults."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

Vectors = list[list[float]]
Fault = Callable[["Handler", bytes], None]
"""Answers a request in place of the proxy, given what it would answer."""


@dataclass
class Proxy:
    """A proxy's faults, and the requests that it has seen.

    Attributes
    ----------
    faults : of the next requests to encode, one each; None for none.
    always : of all others.
    change : of the vectors, before they are sent.
    limit : most texts of a request.
    asked : paths, headers and bodies of all requests.
    ports : of the callers, a port for each connection.
    """

    upstream: str
    model: str
    faults: list[Fault | None] = field(default_factory=list)
    always: Fault | None = None
    change: Callable[[Vectors], Vectors] = list
    limit: int = 1000
    url: str = ""
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    running: int = 0
    most_running: int = 0

    def encoded(self, texts: list[str], **more: Any) -> Vectors:
        """Vectors of the real server."""
        parts = urlsplit(self.upstream)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        body = {"model": self.model, "input": texts} | more
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/embeddings", json.dumps(body), headers)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        assert "data" in answer, answer
        return self.change([each["embedding"] for each in answer["data"]])

    def texts(self) -> list[str]:
        """All texts that it was asked to encode."""
        return [text for _, _, body in self.asked if body for text in body["input"]]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, proxy: Proxy, *args: Any) -> None:
        self.proxy = proxy
        super().__init__(*args)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.proxy.asked.append((self.path, dict(self.headers), None))
        self.proxy.ports.append(self.client_address[1])
        self.answer(200, {"data": [{"id": "notes", "max_model_len": 128}]})

    def do_POST(self) -> None:
        proxy = self.proxy
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with proxy.lock:
            proxy.asked.append((self.path, dict(self.headers), body))
            proxy.running += 1
            proxy.most_running = max(proxy.running, proxy.most_running)
        try:
            self.encode(body)
        finally:
            with proxy.lock:
                proxy.running -= 1

    def encode(self, body: Any) -> None:
        proxy, texts = self.proxy, body["input"]
        if urlsplit(self.path).path != "/v1/embeddings":
            self.answer(404, {"error": {"message": "File Not Found"}})
            return
        with proxy.lock:
            fault = proxy.faults.pop(0) if proxy.faults else proxy.always
        if len(texts) > proxy.limit:
            self.answer(413, {"error": f"batch size {len(texts)} > {proxy.limit}"})
            return
        rows = reversed([*enumerate(proxy.encoded(texts))])
        answer = {"data": [{"index": i, "embedding": row} for i, row in rows]}
        content = json.dumps(answer).encode()
        if fault is None:
            self.send(200, content)
        else:
            fault(self, content)

    def answer(self, status: int, found: Any) -> None:
        self.send(status, json.dumps(found).encode())

    def send(
        self, status: int, content: bytes, kind: str = "application/json", **headers: str
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)


def status(code: int, **headers: str) -> Fault:
    """Answer with a status."""
    said = json.dumps({"error": {"message": "try later"}}).encode()
    return lambda handler, content: handler.send(code, said, **headers)


def too_long(code: int, message: str, limit: int) -> Fault:
    """Refuse a request with a text of more than `limit` characters, if one request runs a time."""
    said = json.dumps({"error": {"message": message}}).encode()

    def answer(handler: Handler, content: bytes) -> None:
        texts = handler.proxy.asked[-1][2]["input"]
        is_refused = max(map(len, texts)) > limit
        handler.send(code, said) if is_refused else handler.send(200, content)

    return answer


def slow(seconds: float) -> Fault:
    """Answer after a while, if anybody still listens."""

    def answer(handler: Handler, content: bytes) -> None:
        time.sleep(seconds)
        handler.close_connection = True

    return answer


def truncated(handler: Handler, content: bytes) -> None:
    """Send half of the answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[: len(content) // 2])
    handler.close_connection = True


def reset(handler: Handler, content: bytes) -> None:
    """Reset the connection."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def page(handler: Handler, content: bytes) -> None:
    """Send HTML."""
    handler.send(200, b"<html><body>Welcome</body></html>", "text/html")


def changed(change: Callable[[Any], Any], status: int = 200) -> Fault:
    """Send another answer."""
    return lambda handler, content: handler.answer(status, change(json.loads(content)))


@contextmanager
def proxied(proxy: Proxy) -> Iterator[Proxy]:
    """Run a proxy."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # callers hang up

    with Server(("127.0.0.1", 0), partial(Handler, proxy)) as server:
        proxy.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()
