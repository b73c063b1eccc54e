"""Names that a service is called by, and how its answers leave it."""

from __future__ import annotations

import socket

import pytest

from slimdex.indexes.errors import InputError
from slimdex.retrieval.server.hosts import Hosts
from slimdex.retrieval.server.running import Listening


@pytest.mark.parametrize("name", ["bad host", "example.org/", "example.org:80", "a@b", ""])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"expected a name as search\.example\.org"):
        Hosts([name])


def test_addresses_and_names_are_names() -> None:
    hosts = Hosts(["0.0.0.0", "::1", "Search.Example.org"])
    assert hosts.knows("search.example.org:8000")
    assert hosts.knows("[::1]:8000")
    assert not hosts.knows("example.org")


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """Of 40 ms each, by Nagle's algorithm; connections inherit what the listening socket has."""
    with (
        Listening(port=0).listen() as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
