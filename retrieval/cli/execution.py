"""Run commands on an index, in this process or in the service that has it open."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slimdex.indexes.execution.progress import Note, listening

from . import console
from .options.opening import OpenOptions

if TYPE_CHECKING:
    from ..collection import Collection
    from ..encoders.base import Encoder
    from ..operations.commands import Command


class Index:
    """An index to run commands on, open only during each of them.

    A service that has the index open runs them with the options it was started with.
    """

    def __init__(self, path: Path, opening: OpenOptions) -> None:
        self.path, self.opening = path, opening
        self._encoder: Encoder | None = None

    def do(self, command: Command, note: Note = console.note) -> dict[str, Any]:
        """Run a command, showing its progress and notes; returns its result."""
        from ..operations.service_client import done_by_holder

        with _own_input(self.path, command) as sent, console.progress(), listening(note=note):
            found = done_by_holder(self.path, sent)
            if found is not None:
                return found
            with self.opened(read_only=not sent.changes) as collection:
                found = sent.run(collection)
                self._encoder = collection.core.loaded_encoder
                return found

    def opened(self, *, read_only: bool = True) -> Collection:
        """Open the index in this process."""
        from ..collection import Collection

        return Collection.open(
            self.path,
            self._encoder,
            read_only=read_only,
            wait=self.opening.wait,
            model=self.opening.model,
            trust_remote_code=self.opening.trust_remote_code,
        )


def do(command: Command, index: Path, wait: float) -> dict[str, Any]:
    """Run a command that needs no encoder."""
    return Index(index, OpenOptions(wait=wait)).do(command)


@contextmanager
def _own_input(index: Path, command: Command, note: Note = console.note) -> Iterator[Command]:
    """Yield the command; a service gets a copy of this process's standard input."""
    from ..operations.address import socket_of
    from ..operations.commands import Add, Sync

    is_piped = isinstance(command, Add | Sync) and command.sources.is_piped
    if not is_piped or sys.stdin is None or socket_of(index) is None:
        yield command
        return
    assert isinstance(command, Add | Sync)
    with tempfile.NamedTemporaryFile(prefix="slimdex-stdin-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield replace(command, sources=replace(command.sources, standard_input=copy.name))
