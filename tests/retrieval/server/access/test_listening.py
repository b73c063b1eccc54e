"""Where a service may listen, and the names by which it is called."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from slimdex.indexes.errors import InputError
from slimdex.retrieval.server.access.hosts import Hosts
from slimdex.retrieval.server.access.tokens import Right, Tokens
from slimdex.retrieval.server.running import Listening

TOKENS = Tokens({b"0123456789abcdef": Right.READ})


@pytest.mark.parametrize("name", ["bad host", "example.org/", "example.org:80", "a@b", ""])
def test_a_host_is_a_name_without_a_port(name: str) -> None:
    with pytest.raises(InputError):
        Hosts([name])


@pytest.mark.parametrize("page", ["example.org", "https://example.org/", "https://[/", ""])
def test_a_page_is_an_origin(page: str) -> None:
    with pytest.raises(InputError):
        Hosts(pages=[page])


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"host": "0.0.0.0", "tokens": TOKENS}, id="unencrypted tokens"),
        pytest.param({"host": "0.0.0.0", "insecure": True}, id="no tokens"),
        pytest.param({"port": 70_000}, id="port"),
        pytest.param({"key": Path("key.pem")}, id="key without certificate"),
        pytest.param({"certificate": Path(__file__)}, id="no certificate"),
    ],
)
def test_an_address_without_protection_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Listening(**options)


def test_an_address_with_protection_is_accepted() -> None:
    assert Listening("0.0.0.0", tokens=TOKENS, insecure=True).port == 8000
    assert Listening("127.0.0.2", tokens=TOKENS).port == 8000


def test_a_port_in_use_is_refused() -> None:
    with Listening(port=0).listen() as taken, pytest.raises(InputError, match="in use"):
        Listening(port=taken.getsockname()[1]).listen()


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """Of 40 ms each, by Nagle's algorithm; connections inherit what the listening socket has."""
    with (
        Listening(port=0).listen() as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
