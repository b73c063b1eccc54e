"""Options of most commands: which index, how it is opened, and by what it is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import Note, listening
from slimdex.indexes.execution.workers import HERE, Workers

from . import console
from .click_commands import FOLDER, VARIABLE, Argument

if TYPE_CHECKING:
    from ..collection import Collection
    from ..commands import Command

DEFAULT = f"default: {VARIABLE}, or the nearest {FOLDER} here or above."
Dir = Annotated[Path, Argument("DIR", f"The index's folder; {DEFAULT}", is_index=True)]
Dirs = Annotated[
    list[str],
    Argument(
        "DIR",
        f"Folders of indexes; NAME=DIR serves one under another name; {DEFAULT}",
        is_index=True,
    ),
]
SomeDirs = Annotated[
    list[str] | None,
    Argument("DIR", f"Folders of indexes; NAME=DIR serves one under another name; {DEFAULT}"),
]
Json = Annotated[bool, "--json", "Print one JSON object and nothing else."]
Where = Annotated[str | None, "A DuckDB condition on the documents' columns: year > 2000."]
Labels = Annotated[Path | None, "Labels of the queries: query, document, score (BEIR or TREC)."]
Model = Annotated[
    str | None,
    "New location of the encoder's model, if it has moved: a folder, a file, a hub id or a URL.",
]
ApiKeyFile = Annotated[
    Path | None,
    "A file with the key of the encoder's server; default: OPENAI_API_KEY, for the host of "
    "OPENAI_BASE_URL.",
]


def _warned(ctx: click.Context, param: click.Parameter, trusted: bool) -> bool:
    if trusted:
        console.note("code that comes with the model is run with your permissions")
    return trusted


Trust = Annotated[
    bool,
    {"callback": _warned},
    "Run Python code that comes with the model; only for authors you trust.",
]


@dataclass(frozen=True)
class OpenOptions:
    """Options to open an existing index."""

    model: Model = None
    trust_remote_code: Trust = False
    api_key_file: ApiKeyFile = None


@dataclass(frozen=True)
class WriteOptions:
    """Options of commands that change an index."""

    wait: Annotated[
        float, "SECONDS", "How long a change waits for its turn while other processes write."
    ] = 30
    shared_filesystem: Annotated[
        bool, "Change it on a network file system; locks must work between all its machines."
    ] = False


@dataclass(frozen=True)
class RayOptions:
    """Processes that encode, fit and code."""

    ray: Annotated[
        str | None,
        "ADDRESS|local",
        "Encode and fit on a Ray cluster: local, for one on this machine; or the address of a "
        "running one, whose machines need slimdex, and the model at the same path as here.",
    ] = None
    workers: Annotated[
        int | None, "N", "Workers for --ray, with a CPU each; default: as many as the cluster has."
    ] = None

    @contextmanager
    def started(self) -> Iterator[Workers]:
        """Start the workers, and stop them at the end.

        >>> with RayOptions().started() as workers:
        ...     list(workers.map(abs, [-1]))
        [(-1, 1)]
        """
        if self.ray is None:
            if self.workers is not None:
                raise InputError(
                    f"--workers {self.workers} without --ray; expected --ray local or an address"
                )
            yield HERE
            return
        from ..cluster.ray_workers import RayWorkers

        with RayWorkers(self.ray, self.workers) as workers:
            yield workers


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
            self._collection.index.workers = self.workers
            if context := click.get_current_context(silent=True):  # none in MCP's threads
                context.call_on_close(self._collection.close)
        return self._collection
