"""Service: the indexes served by one process, by name."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from starlette.exceptions import HTTPException

from slimdex.errors import EncoderError, InputError, SlimdexError
from slimdex.system.index_names import index_name

from ..index import Index
from .limits import Limits
from .metrics import Metrics
from .served_index import ServedIndex

if TYPE_CHECKING:
    from ..search.reranking import CrossEncoder

T = TypeVar("T")
LOG = logging.getLogger("slimdex.server")
LONGEST_WAIT = 60
"""Longest time in seconds before an index that can't be loaded is tried again."""
CONDITIONS = 4
"""Threads for searches with a condition, which may take long, shared by all indexes."""
_NAME = re.compile(r"[\w.-]{1,100}", re.ASCII)
NO_ENCODER = "the index's encoder can't be opened; the server's log says why"
NAMED_FOLDER = "NAME=DIR, each name once, of letters, digits, '-', '_' and '.'"


@dataclass
class Service:
    """The indexes of a service, by name."""

    limits: Limits = field(default_factory=Limits)
    indexes: dict[str, ServedIndex] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    is_ready: bool = False
    reranker: CrossEncoder | None = None  # reorders hits of searches that ask for it
    _conditions: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(CONDITIONS, thread_name_prefix="conditions")
    )

    @classmethod
    def open(
        cls,
        places: Mapping[str, Path],
        limits: Limits | None = None,
        *,
        reranker: CrossEncoder | None = None,
        open_one: Callable[[Path], Index] = Index.open,
    ) -> Service:
        """Open all indexes, or none.

        `open_one` opens the index of a folder. Raises `InputError` or `CorruptError` as
        `Collection.open` does.
        """
        service = cls(limits or Limits(), reranker=reranker)

        # If one can't be opened, close the others again.
        with ExitStack() as undo:
            for name, place in places.items():
                index = open_one(place)
                undo.callback(index.close)
                service.indexes[name] = ServedIndex(
                    name, index, service.limits, service.metrics, service._conditions
                )
            undo.pop_all()
        return service

    def get(self, name: str) -> ServedIndex:
        """Return the index of a name; raises a 404 if unknown."""
        if name not in self.indexes:
            known = sorted(self.indexes)
            expected = f"one of {', '.join(known)}"
            raise HTTPException(404, f"index {name[:100]!r}; expected {expected}")
        return self.indexes[name]

    async def read(self, name: str, command: Callable[[Index], T], where: str | None) -> T:
        """Run a command that only reads, on the index of a name; with the command's condition."""
        try:
            return await self.get(name).read(command, where)
        except EncoderError as error:
            LOG.error("%s", error)
            raise SlimdexError(NO_ENCODER) from error
        except (SlimdexError, OSError) as error:
            raise SlimdexError(self.without_paths(str(error))) from error

    def without_paths(self, message: str) -> str:
        """Replace folders of indexes by their names in a message."""
        for name, index in self.indexes.items():
            message = message.replace(str(index.index.path), name)
        return message

    async def load(self) -> None:
        """Load what the first query to each index requires; then `is_ready` is true.

        Failures are logged and tried again, at longer and longer intervals: an encoder's server may
        start after this one. Queries meanwhile try, too, and report them.
        """
        left = self.indexes
        wait = 1
        while left := {name: each for name, each in left.items() if not await _load(name, each)}:
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)
        self.is_ready = True

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


async def _load(name: str, index: ServedIndex) -> bool:
    """Load an index; return whether that succeeded, and log why if not."""
    try:
        await index.load()
    except Exception as error:
        trace = None if isinstance(error, SlimdexError) else error  # whose message says it all
        LOG.error("index %s can't be loaded: %s", name, error, exc_info=trace)
        return False
    return True


def parse_places(words: Sequence[str]) -> dict[str, Path]:
    """Map names to folders; a word is NAME=DIR, or DIR for an index named after its folder.

    Raises `InputError` if a name is not valid in a URL, or occurs twice.

    >>> parse_places(["/srv/news.index", "old=/srv/2019"])
    {'news': PosixPath('/srv/news.index'), 'old': PosixPath('/srv/2019')}
    >>> parse_places(["/srv/notes/.slimdex"])
    {'notes': PosixPath('/srv/notes/.slimdex')}
    """
    places = dict[str, Path]()
    for word in words:
        name, _, folder = word.partition("=")
        if not folder or Path(word).exists():  # a folder's own name may contain "="
            folder = word
            name = index_name(Path(word).resolve())
        if not _NAME.fullmatch(name) or name in places:
            raise InputError(f"{word}: index name {name!r}; expected {NAMED_FOLDER}")
        places[name] = Path(folder)
    return places
