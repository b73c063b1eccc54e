"""Where a service may listen, the names by which it is called, and who may call it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from slimdex.errors import InputError
from slimdex.retrieval.server.access import Listening, Right, Tokens

TOKENS = Tokens({b"0123456789abcdef": Right.READ})
READ, WRITE = "r" * 16, "w" * 20


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"host": "0.0.0.0", "tokens": TOKENS}, id="unencrypted tokens"),
        pytest.param({"host": "0.0.0.0", "insecure": True}, id="no tokens"),
        pytest.param({"port": 70_000}, id="port"),
        pytest.param({"pages": ["https://example.org/"]}, id="page with a path"),
        pytest.param({"key": Path("key.pem")}, id="key without certificate"),
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


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_header_gives_the_rights_of_its_token(tmp_path: Path) -> None:
    tokens = Tokens.read(
        written(tmp_path / "t", f"# ours\n\nread {READ}  # the page\nwrite {WRITE}\n")
    )
    rights = {
        f"Bearer {READ}": Right.READ,
        f"bearer  {WRITE} ": Right.WRITE,
        f"Bearer {READ}x": Right.NOTHING,
        f"Bearer {READ[:-1]}": Right.NOTHING,
        f"Basic {READ}": Right.NOTHING,
        READ: Right.NOTHING,
        "Bearer ": Right.NOTHING,
        "": Right.NOTHING,
    }
    assert {header: tokens.right_of(header) for header in rights} == rights
    assert tokens.right_of("Bearer \xff\xfe") is Right.NOTHING


@pytest.mark.parametrize(
    "text",
    ["", "read short", f"\nown {READ}", f"read {READ} {WRITE}", f"read {'ä' * 20}"],
)
def test_wrong_files_are_refused_without_telling_a_token(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected lines of 'read TOKEN'") as error:
        Tokens.read(written(tmp_path / "t", text))
    assert READ not in str(error.value).replace(str(tmp_path), "")


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="chmod 600"):
        Tokens.read(written(tmp_path / "t", f"read {READ}", 0o640))
    with pytest.raises(InputError):
        Tokens.read(tmp_path / "none")
