"""RootFolder: the folder in which callers create and drop indexes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from shutil import rmtree
from typing import Any

from slimdex.indexes.errors import InputError, InUseError
from slimdex.indexes.settings import Settings

from ..atomic_files import is_index, sync
from ..collection import Collection
from ..encoders.base import AUTO, Encoder
from ..locks import FileLock

ENDING = ".index"
DROPPED = ".dropped"
"""Ending of a folder that is being removed."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)


class RootFolder:
    """A folder whose sub-folders NAME.index are indexes that callers may create and drop.

    What interrupted drops have left there is removed.

    Parameters
    ----------
    make_encoder : loads the encoder of new indexes, which share it.
    wait : seconds to wait for other processes that write to an index, before it is dropped.
    shared_filesystem : as for `Collection.create`.

    Raises `InputError` if there is no such folder.
    """

    def __init__(
        self,
        path: Path,
        make_encoder: Callable[[], Encoder],
        wait: float = 30.0,
        shared_filesystem: bool = False,
    ) -> None:
        if not path.is_dir():
            raise InputError(f"--root {path}: no such folder; expected an existing one")
        self.path, self._make_encoder = path.resolve(), cache(make_encoder)
        self._wait, self._shared_filesystem = wait, shared_filesystem
        for left in path.glob(f".*{ENDING}{DROPPED}"):
            rmtree(left, ignore_errors=True)

    @property
    def places(self) -> dict[str, Path]:
        """Folders of the existing indexes, by name."""
        return {
            folder.name.removesuffix(ENDING): folder
            for folder in sorted(self.path.glob(f"*{ENDING}"))
            if _NAME.fullmatch(folder.name.removesuffix(ENDING))
            and is_index(folder)
            and not folder.is_symlink()
        }

    def create(
        self, name: str, settings: Mapping[str, Any], passages: str | int | None = AUTO
    ) -> Collection:
        """Create an empty index.

        Raises `InputError` if the name or a setting is invalid, or the folder exists.
        """
        if not _NAME.fullmatch(name):
            raise InputError(
                f"index name {name[:100]!r}; expected letters, digits, '-', '_' and '.', at most "
                "100, and a letter or digit first"
            )
        place = self.path / f"{name}{ENDING}"
        if place.exists():
            raise InputError(f"index {name!r} exists; expected a new name")
        encoder = self._make_encoder()
        return Collection.create(
            place,
            encoder,
            Settings().changed(settings, encoder.dim),
            passages=passages,
            shared_filesystem=self._shared_filesystem,
        )

    def drop(self, place: Path) -> None:
        """Remove an index that this process has closed; from its renaming on it is gone.

        Raises `InUseError` if another process is writing to it, or (Windows) has it open.
        """
        gone = place.with_name(f".{place.name}{DROPPED}")
        rmtree(gone, ignore_errors=True)
        with FileLock(place, "writer").held(self._wait):
            pass  # Windows renames no folder with an open file: a writer may still come between
        try:
            os.rename(place, gone)
        except PermissionError as error:
            raise InUseError(f"{place}: in use ({error.strerror}); expected none") from error
        sync(self.path)
        rmtree(gone, ignore_errors=True)
