"""The user's cache folder: conversions, measurements and digests, which can be deleted anytime."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from time import time_ns
from typing import Any

from slimdex.system.atomic_files import ExistsError, publish_folder, sha256

RACY = 2_000_000_000
"""Nanoseconds within which a second change may leave the same times: some systems store them in
seconds, and FAT in steps of two."""
LARGE = 1 << 20
"""Size in bytes from which a digest of a file is cached."""


def cache_folder() -> Path:
    """Cache folder: SLIMDEX_CACHE, or slimdex in the user's cache folder."""
    configured = os.environ.get("SLIMDEX_CACHE")
    if configured:
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slimdex"


def load_remembered(name: str) -> Any:
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


def cached_folder(name: str, fill: Callable[[Path], object]) -> Path:
    """Return a folder of the cache, which the first process that needs it has filled."""
    folder = cache_folder() / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(ExistsError):  # another process was faster
            publish_folder(folder, fill)
    return folder


_IN_FULL: ContextVar[bool] = ContextVar("in_full", default=False)


@contextmanager
def read_in_full() -> Iterator[None]:
    """Let `known_sha256` read whole files within the context, even if digests are remembered."""
    before = _IN_FULL.set(True)
    try:
        yield
    finally:
        _IN_FULL.reset(before)


def known_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, remembered if the file is large.

    It is valid while the file's size, times and inode stay the same. It is not remembered if the
    file changes while it is read, or may change again within the resolution of its times.
    """
    stamp = _stamp(path)
    size = stamp[0]
    if size < LARGE:
        return sha256(path)

    # The entry is named after a digest of the path.
    encoded = os.fsencode(path.absolute())
    name = f"sha256-{hashlib.sha256(encoded).hexdigest()[:32]}"
    known = None if _IN_FULL.get() else load_remembered(name)
    if isinstance(known, dict) and known.get("stamp") == stamp and "sha256" in known:
        return str(known["sha256"])

    # Remember it, unless the file may still be changing.
    digest = sha256(path)
    last_change = max(stamp[1:3])
    if time_ns() - last_change > RACY and _stamp(path) == stamp:
        remember(name, {"stamp": stamp, "sha256": digest})
    return digest


def _stamp(path: Path) -> list[int]:
    """Size, modification and change times, inode and device, to see whether a file has changed."""
    facts = path.stat()
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, facts.st_dev]
