"""Run commands on an index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slimdex.indexes.execution.progress import Note, listening
from slimdex.indexes.execution.workers import HERE, Workers

from . import console
from .options.opening import OpenOptions, WriteOptions

if TYPE_CHECKING:
    from ..collection import Collection
    from ..commands import Command


OPENED, WRITTEN = OpenOptions(), WriteOptions()


class Index:
    """An index to run commands on, opened for the first of them and closed when the program ends.

    `workers` encode, fit and code.
    """

    def __init__(
        self,
        path: Path,
        opening: OpenOptions = OPENED,
        writing: WriteOptions = WRITTEN,
        workers: Workers = HERE,
    ) -> None:
        self.path, self.opening, self.writing, self.workers = path, opening, writing, workers
        self._collection: Collection | None = None

    def do(self, command: Command, note: Note = console.note) -> dict[str, Any]:
        """Run a command, showing its progress and notes; returns its result."""
        with console.progress(), listening(note=note):
            return command(self.opened())

    def opened(self) -> Collection:
        """The open index."""
        if self._collection is None:
            from ..collection import Collection

            self._collection = Collection.open(
                self.path,
                wait=self.writing.wait,
                shared_filesystem=self.writing.shared_filesystem,
                model=self.opening.model,
                trust_remote_code=self.opening.trust_remote_code,
                api_key_file=self.opening.api_key_file,
            )
            self._collection.commit_log.workers = self.workers
            if context := click.get_current_context(silent=True):  # none in MCP's threads
                context.call_on_close(self._collection.close)
        return self._collection
