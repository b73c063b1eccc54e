"""Service: the indexes served by one process, by name."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from slimdex.indexes.errors import InputError, SlimdexError

from ..collection import Collection
from ..operations.commands import Command
from .conditional import Conditional
from .limits import Limits
from .metrics import Metrics
from .served_index import ServedIndex

LOG = logging.getLogger("slimdex.server")
_NAME = re.compile(r"[\w.-]{1,100}", re.ASCII)
EXPECTED = "NAME=DIR, a name of letters, digits, '-', '_' and '.'"


@dataclass
class Service:
    """The indexes of a service.

    Attributes
    ----------
    indexes : by name.
    folders : folders that callers may read files from.
    """

    limits: Limits = field(default_factory=Limits)
    folders: Sequence[Path] = ()
    indexes: dict[str, ServedIndex] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    is_ready: bool = False

    @classmethod
    def open(
        cls,
        places: Mapping[str, Path],
        limits: Limits | None = None,
        folders: Sequence[Path] = (),
        *,
        open_one: Callable[[Path], Collection] = Collection.open,
    ) -> Service:
        """Open all indexes for changes, or none.

        `open_one` opens the collection of a folder for changes. Raises `InputError` or
        `CorruptError` as `Collection.open` does, or if an encoder is a function.
        """
        for folder in folders:
            if not folder.is_dir():
                raise InputError(f"--files {folder}: no such folder; expected an existing one")
        service = cls(limits or Limits(), [folder.resolve() for folder in folders])
        conditional = Conditional()
        with ExitStack() as undo:
            for name, place in places.items():
                collection = open_one(place)
                undo.callback(collection.close)
                if (core := collection.core).lacks_encoder:
                    raise InputError(
                        f"{place}: its encoder is {core.state.encoder}, which only Python can "
                        "pass; expected an index built with a model"
                    )
                service.indexes[name] = ServedIndex(
                    name, collection, service.limits, service.metrics, conditional
                )
            undo.pop_all()
        service._add_gauges()
        return service

    def named(self, name: str) -> ServedIndex:
        """The index of a name; raises a 404 if unknown."""
        if name not in self.indexes:
            known = ", ".join(sorted(self.indexes))
            raise HTTPException(404, f"index {name[:100]!r}; expected one of {known}")
        return self.indexes[name]

    async def do(self, name: str, command: Command) -> dict[str, Any]:
        """Run a command that only reads, on the index of a name."""
        try:
            return await self.named(name).do(command)
        except SlimdexError as error:
            raise SlimdexError(self.without_paths(str(error))) from error

    def without_paths(self, message: str) -> str:
        """Replace folders of indexes by their names in a message."""
        for name, index in self.indexes.items():
            message = message.replace(str(index.collection.path), name)
        return message

    async def load(self) -> None:
        """Load what the first query to each index requires; then `is_ready` is true.

        Failures are logged; queries try again and report them.
        """
        all_loaded = True
        for name, index in self.indexes.items():
            try:
                await index.load()
            except Exception as error:
                LOG.error("index %s can't be loaded: %s", name, error, exc_info=error)
                all_loaded = False
        self.is_ready = all_loaded

    @asynccontextmanager
    async def life(self) -> AsyncGenerator[None]:
        """Load the indexes; at the end finish running work and close them."""
        loading = asyncio.create_task(self.load())
        try:
            yield
        finally:
            loading.cancel()
            with suppress(asyncio.CancelledError):
                await loading
            for index in self.indexes.values():
                await index.close()

    def _add_gauges(self) -> None:
        def gauge(value: Callable[[ServedIndex], float]) -> Callable[[], list[tuple[str, float]]]:
            return lambda: [(name, value(index)) for name, index in self.indexes.items()]

        self.metrics.add_gauge(
            "slimdex_documents", "Documents of an index.", gauge(lambda i: len(i.collection))
        )
        self.metrics.add_gauge(
            "slimdex_waiting_queries",
            "Queries that wait, or are under way.",
            gauge(lambda i: i.waiting),
        )


def named_places(words: Sequence[str]) -> dict[str, Path]:
    """Map names to folders; a word is NAME=DIR, or DIR for an index named after its folder.

    Raises `InputError` if a name is not valid in a URL, or occurs twice.

    >>> named_places(["/srv/news.index", "old=/srv/2019"])
    {'news': PosixPath('/srv/news.index'), 'old': PosixPath('/srv/2019')}
    """
    places = dict[str, Path]()
    for word in words:
        given, _, rest = word.partition("=")
        is_named = bool(rest) and not Path(word).exists()
        place = Path(rest if is_named else word)
        name = given if is_named else place.resolve().name.removesuffix(".index")
        if not _NAME.fullmatch(name):
            raise InputError(f"{word}: index name {name!r}; expected {EXPECTED}")
        if name in places:
            raise InputError(f"{word}: a second index {name!r}; expected another name: {EXPECTED}")
        places[name] = place
    return places
