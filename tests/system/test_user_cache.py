"""The user's cache folder, and facts of files that are remembered while the files stay the same."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from time import time

import pytest

from slimdex.system import user_cache
from slimdex.system.user_cache import cache_folder, cached_folder, known_sha256

LONG_AGO = time() - 3600


@pytest.fixture
def big(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A large file that was last changed an hour ago; its inode's change can't be set back."""
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(user_cache, "RACY", 0)
    (tmp_path / "big").write_bytes(b"a" * user_cache.LARGE)
    return tmp_path / "big"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_digest_is_computed_once(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert known_sha256(big) == sha256(big)
    monkeypatch.setattr(user_cache, "sha256", None)  # called, it would fail
    assert known_sha256(big) == sha256(big)
    monkeypatch.chdir(big.parent)
    assert known_sha256(Path("big")) == sha256(big)


@pytest.mark.parametrize("way", ["in place", "replaced", "with its old time"])
def test_a_changed_file_has_another_digest(big: Path, way: str) -> None:
    os.utime(big, (LONG_AGO, LONG_AGO))
    before = known_sha256(big)
    new = b"b" * user_cache.LARGE
    if way == "replaced":
        (big.parent / "new").write_bytes(new)
        os.replace(big.parent / "new", big)
    else:
        big.write_bytes(new)
    if way != "in place":
        os.utime(big, (LONG_AGO, LONG_AGO))
    assert known_sha256(big) == hashlib.sha256(new).hexdigest() != before


def remembered() -> list[Path]:
    return [*cache_folder().glob("sha256-*.json")]


def test_a_file_changed_just_now_is_not_remembered(
    big: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_cache, "RACY", 3600 * 10**9)
    known_sha256(big)
    assert remembered() == []


def test_a_file_that_changes_while_it_is_read_is_not_remembered(
    big: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changing(path: Path) -> str:
        found = sha256(path)
        path.write_bytes(b"c" * user_cache.LARGE)
        return found

    monkeypatch.setattr(user_cache, "sha256", changing)
    known_sha256(big)
    assert remembered() == []


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLIMDEX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/slimdex")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "slimdex"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_folder_is_filled_once_even_if_another_process_is_faster(cache: Path) -> None:
    def late(folder: Path) -> None:
        assert not (cache / "a").exists()
        cached_folder("a", lambda other: (other / "b").write_text("early"))
        (folder / "b").write_text("late")

    for fill in (late, None):  # called, None would fail
        assert (cached_folder("a", fill) / "b").read_text() == "early"  # type: ignore[arg-type]
    assert [path.name for path in cache.iterdir()] == ["a"]


def test_a_folder_that_could_not_be_filled_is_removed(cache: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "b").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cached_folder("a", fill)
    assert [*cache.iterdir()] == []
