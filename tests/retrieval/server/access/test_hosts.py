"""Names that a service is called by, and how its answers leave it."""

from __future__ import annotations

import socket

import pytest

from slimdex.indexes.errors import InputError
from slimdex.retrieval.server.access.hosts import Hosts
from slimdex.retrieval.server.access.tokens import Right, Tokens
from slimdex.retrieval.server.running import Listening


@pytest.mark.parametrize("name", ["bad host", "example.org/", "example.org:80", "a@b", ""])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"expected a name such as search\.example\.org"):
        Hosts([name])


def test_addresses_and_names_are_names() -> None:
    hosts = Hosts(["0.0.0.0", "::1", "Search.Example.org"])
    assert hosts.knows("search.example.org:8000")
    assert hosts.knows("[::1]:8000")
    assert not hosts.knows("example.org")


def test_tokens_of_other_machines_need_tls_or_a_word_that_they_do_not() -> None:
    tokens = Tokens({b"0123456789abcdef": Right.READ})
    with pytest.raises(InputError, match=r"0: tokens .* unencrypted; expected --tls-certificate"):
        Listening("0.0.0.0", tokens=tokens)
    with pytest.raises(InputError, match="other machines could read and write"):
        Listening("0.0.0.0", insecure=True)
    assert Listening("0.0.0.0", tokens=tokens, insecure=True).port == 8000
    assert Listening("127.0.0.2", tokens=tokens).port == 8000


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """Of 40 ms each, by Nagle's algorithm; connections inherit what the listening socket has."""
    with (
        Listening(port=0).listen() as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
