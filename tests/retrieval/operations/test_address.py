"""Where a service says that it is to be found."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path

from slimdex.retrieval.operations.address import FILE, Addresses, socket_of


def test_it_is_told_for_its_user_alone_and_taken_back(tmp_path: Path) -> None:
    with Addresses.told([tmp_path]) as addresses:
        place = socket_of(tmp_path)
        assert str(place) == addresses.path
        for path in (tmp_path / FILE, Path(addresses.path).parent, Path(addresses.path)):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    assert socket_of(tmp_path) is None
    assert not (tmp_path / FILE).exists()
    assert not Path(addresses.path).parent.exists()


def test_one_that_ends_does_not_hide_the_next(tmp_path: Path) -> None:
    """The index is let go of before its service has ended."""
    with Addresses.told([tmp_path]):
        following = Addresses.told([tmp_path])
        addresses = following.__enter__()
    assert str(socket_of(tmp_path)) == addresses.path
    following.__exit__(None, None, None)
    assert socket_of(tmp_path) is None


def test_what_a_killed_service_left_is_removed(tmp_path: Path) -> None:
    """But neither what somebody listens at nor what is no socket of a service."""
    left, alive, other = (tmp_path / name for name in ("slimdex-a", "slimdex-b", "slimdex-c"))
    for place in (left, alive, other):
        place.mkdir()
    indexes = [tmp_path / name for name in "abc"]
    (other / "service.socket").write_text("a file")
    with socket.socket(socket.AF_UNIX) as killed, socket.socket(socket.AF_UNIX) as listening:
        killed.bind(str(left / "service.socket"))
        listening.bind(str(alive / "service.socket"))
        listening.listen()
        for index, place in zip(indexes, (left, alive, other), strict=True):
            index.mkdir()
            (index / FILE).write_text(json.dumps({"socket": str(place / "service.socket")}))
        with Addresses.told(indexes):
            assert [place.exists() for place in (left, alive, other)] == [False, True, True]
    assert (other / "service.socket").read_text() == "a file"


def test_what_is_left_behind_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"socket": "/nowhere"}')
    assert socket_of(tmp_path) is None
    (tmp_path / FILE).write_text("no json")
    assert socket_of(tmp_path) is None
