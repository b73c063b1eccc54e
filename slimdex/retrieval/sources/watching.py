"""Watching folders for changes, reported once they have ceased for a moment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic, sleep

from slimdex.errors import InputError

CALM_MS = 1000
"""Time without changes before they are reported: many come together."""
LONGEST_MS = 15_000
"""Maximum time before changes are reported if they never cease."""
TICK_MS = 1000
LOOK_SECONDS = 600
"""Time without changes after which one is assumed: targets of links are not watched, and systems
drop events if there are too many."""
IGNORES = ".gitignore"


def ticks(places: Sequence[Path], index: Path) -> Iterator[bool]:
    """Yield about every second whether something has changed; True the first time.

    `places` are folders, with everything below, and files; changes below `index` are ignored.
    Raises `InputError` if the system can't watch that much.
    """
    folders = []
    files = []
    for place in places:
        if place.is_dir():
            folders.append(Path(os.path.realpath(place)))
        else:
            files.append(place)

    # Folders are watched, and files compared at each tick.
    before = None
    last = monotonic()
    for changed in _changes(folders, Path(os.path.realpath(index))):
        now = [*map(_facts, files)]
        if changed or now != before or monotonic() - last > LOOK_SECONDS:
            before = now
            last = monotonic()
            yield True
        else:
            yield False


def _changes(folders: Sequence[Path], index: Path) -> Iterator[bool]:
    """Yield True once watching has begun; then, at each tick, whether something has changed."""
    if not folders:  # only ticks
        yield True
        while True:
            sleep(TICK_MS / 1000)
            yield False
    from watchfiles import watch  # an optional library

    def matters(_: object, path: str) -> bool:
        return counts(Path(path), folders, index)

    while True:
        identities = [*map(_identity, folders)]
        if None in identities:  # a folder is missing; it may come back
            sleep(TICK_MS / 1000)
            yield False
            continue
        first = True
        try:
            for changes in watch(
                *folders,
                watch_filter=matters,
                debounce=LONGEST_MS,
                step=CALM_MS,
                rust_timeout=TICK_MS,
                yield_on_timeout=True,
                ignore_permission_denied=True,
            ):
                yield first or bool(changes)
                first = False
                if [*map(_identity, folders)] != identities:
                    break  # changes of the new folder would be missed
        except (OSError, RuntimeError) as error:
            shown = ", ".join(map(str, folders))
            raise InputError(f"{shown}: can't be watched ({error})") from error
        yield True


def counts(path: Path, folders: Sequence[Path], index: Path) -> bool:
    """True if a change of a file can affect what is read of the folders.

    >>> notes = Path("/notes")
    >>> [counts(notes / p, [notes], notes / "x") for p in ("a.md", ".gitignore", ".git/a", "x/b")]
    [True, True, False, False]
    """
    if path == index or index in path.parents:
        return False
    for folder in folders:
        if folder == path or folder in path.parents:
            # Hidden files are not read, but the rules for ignoring files matter.
            parts = path.relative_to(folder).parts
            is_below_hidden = any(part.startswith(".") for part in parts[:-1])
            counts_itself = not parts or parts[-1] == IGNORES or parts[-1][0] != "."
            if counts_itself and not is_below_hidden:
                return True
    return False


def _identity(folder: Path) -> tuple[int, int] | None:
    """Device and inode numbers of a folder; None if it does not exist."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _facts(file: Path) -> tuple[int, int] | None:
    """Size and modification time of a file; None if it does not exist."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
