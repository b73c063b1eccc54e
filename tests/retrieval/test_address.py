"""Where a service says that it is to be found."""

from __future__ import annotations

import stat
from pathlib import Path

from slimdex.retrieval.address import FILE, Addresses, socket_of


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


def test_what_is_left_behind_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"socket": "/nowhere"}')
    assert socket_of(tmp_path) is None
    (tmp_path / FILE).write_text("no json")
    assert socket_of(tmp_path) is None
