"""The user's cache folder: conversions, measurements and digests, which can be deleted anytime."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from time import time_ns
from typing import Any

from .atomic_files import sha256

RACY = 2_000_000_000
"""Nanoseconds during which a changed file may still have the same times: some systems count in
seconds, and FAT in two of them."""
LARGE = 1 << 20
"""Size in bytes from which a digest of a file is cached."""


def cache_folder() -> Path:
    """Cache folder: SLIMDEX_CACHE, or slimdex in the user's cache folder."""
    if configured := os.environ.get("SLIMDEX_CACHE"):
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slimdex"


def remembered(name: str) -> Any:
    """Load a value saved by `remember`; None if missing or damaged."""
    try:
        return json.loads((cache_folder() / f"{name}.json").read_bytes())
    except (OSError, RuntimeError, ValueError):
        return None


def remember(name: str, value: Any) -> None:
    """Save a small JSON-serialisable value; the last of concurrent writers wins."""
    with suppress(OSError, RuntimeError):
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, new = tempfile.mkstemp(dir=folder, prefix="new-")
        try:
            with open(descriptor, "w") as file:
                json.dump(value, file)
            os.replace(new, folder / f"{name}.json")
        except BaseException:
            Path(new).unlink(missing_ok=True)
            raise


class FileFact:
    """Something known of files, remembered while their sizes, times and inodes stay the same.

    Parameters
    ----------
    what : the fact, as part of a file's name in the cache.
    paths : the files, of which some may be missing.
    """

    def __init__(self, what: str, *paths: Path) -> None:
        self._paths = [path.absolute() for path in paths]
        places = "\0".join(map(str, self._paths)).encode("utf-8", "surrogateescape")
        self._name = f"{what}-{hashlib.sha256(places).hexdigest()[:32]}"
        self._stamps = self._found()

    def known(self) -> Any:
        """Return the fact; None if unknown, or if the files have changed."""
        known = remembered(self._name)
        same = isinstance(known, dict) and known.get("stamps") == self._stamps
        return known.get("fact") if same else None

    def learn(self, fact: Any) -> None:
        """Remember the fact, unless the files changed since this object was made, or just before.

        A fact of files that may change again within the resolution of their times is not kept.
        """
        newest = max((max(stamp[1:3]) for stamp in self._stamps if stamp), default=0)
        if time_ns() - newest > RACY and self._found() == self._stamps:
            remember(self._name, {"stamps": self._stamps, "fact": fact})

    def _found(self) -> list[list[int] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> list[int] | None:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, facts.st_dev]


_IN_FULL: ContextVar[bool] = ContextVar("in_full", default=False)


@contextmanager
def read_in_full() -> Iterator[None]:
    """Let `known_sha256` read files within, whatever is remembered of them."""
    before = _IN_FULL.set(True)
    try:
        yield
    finally:
        _IN_FULL.reset(before)


def known_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, remembered if the file is large."""
    if path.stat().st_size < LARGE:
        return sha256(path)
    fact = FileFact("sha256", path)
    known = None if _IN_FULL.get() else fact.known()
    if known is None:
        fact.learn(known := sha256(path))
    return str(known)
