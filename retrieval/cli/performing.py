"""Performing: a command is done by this process, or by the service that holds the index."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slimdex.indexes.progress import Note, listening

from ..address import socket_of
from . import console

if TYPE_CHECKING:
    from ..commands import Command
    from ..encoders.base import Encoder


class Index:
    """An index that commands are done with; it is open no longer than each of them takes.

    Parameters
    ----------
    wait : seconds to wait while others have it.
    model, trust_remote_code : as for `Collection.open`; a service has its own.
    """

    def __init__(
        self,
        path: Path,
        wait: float = 0.0,
        *,
        model: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        self.path, self.wait = path, wait
        self._encoder: Encoder | None = None
        self._at: dict[str, Any] = {"model": model, "trust_remote_code": trust_remote_code}

    def do(self, command: Command, note: Note = console.note) -> dict[str, Any]:
        """What the command gives; how far it is and its notes are shown meanwhile."""
        from ..collection.collection import Collection
        from ..holder import done_by_holder

        with _own_input(self.path, command) as sent, console.progress(), listening(note=note):
            found = done_by_holder(self.path, sent)
            if found is not None:
                return found
            opened = Collection.open(
                self.path,
                self._encoder,
                read_only=not sent.changes,
                wait=self.wait,
                **self._at,
            )
            with opened as collection:
                found = sent.run(collection)
                self._encoder = collection.core.loaded_encoder
                return found


@contextmanager
def _own_input(index: Path, command: Command, note: Note = console.note) -> Iterator[Command]:
    """The command; where a service may do it, with a copy of what is piped into this process."""
    from ..commands import Add, Sync

    is_piped = isinstance(command, Add | Sync) and command.sources.is_piped
    if not is_piped or sys.stdin is None or socket_of(index) is None:
        yield command
        return
    assert isinstance(command, Add | Sync)
    with tempfile.NamedTemporaryFile(prefix="slimdex-stdin-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield replace(command, sources=replace(command.sources, standard_input=copy.name))
