"""Bodies that never end: they take little memory, get an answer soon, and leave room for others."""

from __future__ import annotations

import socket
import sys
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic

import pytest

from .running import Running, built, serving

MIB = 1 << 20
SIZE = 8 * MIB
SEARCH = "/indexes/notes/search"
HEAD = (
    f"POST {SEARCH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    f"Content-Length: {SIZE}\r\n\r\n"
).encode()


def memory(running: Running) -> int:
    """Bytes of the service in memory."""
    pages = Path(f"/proc/{running.process.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def held_and_answers(running: Running) -> tuple[int, Counter[bytes]]:
    """Memory while 80 bodies lack their last bytes, and the answers' statuses."""
    url, answers = running.client.base_url, Counter[bytes]()
    with ExitStack() as stack:
        connections = []
        for _ in range(80):
            one = stack.enter_context(socket.create_connection((url.host, url.port or 80), 30))
            connections.append(one)
            with suppress(ConnectionError):  # refused before all of it was sent
                one.sendall(HEAD + b" " * (SIZE - 100))
        held = memory(running)
        for one in connections:
            with suppress(ConnectionError):
                answers[one.recv(4096)[9:12]] += 1
    return held, answers


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_eighty_hold_little_and_end_soon(tmp_path: Path) -> None:
    index = built(tmp_path, [{"id": "1", "text": "a cat sat"}, {"id": "2", "text": "a dog"}])
    with serving([index]) as running:
        assert running.client.post(SEARCH, json={"query": "cat"}).status_code == 200
        before, start = memory(running), monotonic()
        for _ in range(2):  # what the first round leaves to the allocator, the second one uses
            held, answers = held_and_answers(running)
            assert held - before < 130 * MIB
            assert set(answers) == {b"408", b"503"}
            assert 1 <= answers[b"408"] <= 8
        assert monotonic() - start < 50
        assert running.client.post(SEARCH, json={"query": "cat"}).status_code == 200
        assert memory(running) - before < 100 * MIB
