"""Service: the indexes served by one process, by name, and the folder for new ones."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.exceptions import HTTPException

from slimdex.errors import EncoderError, InputError, InUseError, SlimdexError
from slimdex.indexes.settings import Settings
from slimdex.system.append_only import sync
from slimdex.system.atomic_files import size
from slimdex.system.index_names import ENDING, index_names, is_index
from slimdex.system.locks import FileLock

from ..encoders.base import AUTO, Encoder
from ..index import Index, create_index
from .limits import LimitError, Limits
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
_NEW_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
DROPPED = ".dropped"
"""Ending of a folder that is being removed."""
NO_ENCODER = "the index's encoder can't be opened; the server's log says why"
IN_ROOT = "expected an index in a folder that the service was started with (--root)"
NAMED_FOLDER = "NAME=DIR, a name of letters, digits, '-', '_' and '.'"


@dataclass
class Service:
    """The indexes of a service, by name."""

    limits: Limits = field(default_factory=Limits)
    folders: Sequence[Path] = ()  # that callers may read files from
    indexes: dict[str, ServedIndex] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    is_ready: bool = False
    root: RootFolder | None = None  # in which callers may create and drop indexes
    reranker: CrossEncoder | None = None  # reorders hits of searches that ask for it
    open_one: Callable[[Path], Index] = Index.open
    _conditions: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(CONDITIONS, thread_name_prefix="conditions")
    )
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def open(
        cls,
        places: Mapping[str, Path],
        limits: Limits | None = None,
        folders: Sequence[Path] = (),
        *,
        root: RootFolder | None = None,
        reranker: CrossEncoder | None = None,
        open_one: Callable[[Path], Index] = Index.open,
    ) -> Service:
        """Open all indexes, including those in the root folder, or none.

        `open_one` opens the index of a folder. Raises `InputError` or `CorruptError` as
        `Collection.open` does.
        """
        in_root = {} if root is None else root.places
        repeated = sorted(in_root.keys() & places.keys())
        if repeated:
            raise InputError(
                f"a second index {repeated[0]!r}; expected another name: {NAMED_FOLDER}"
            )
        for folder in folders:
            if not folder.is_dir():
                raise InputError(f"--files {folder}: no such folder; expected an existing one")
        allowed = [folder.resolve() for folder in folders]
        service = cls(limits or Limits(), allowed, root=root, reranker=reranker, open_one=open_one)

        # If one can't be opened, close the others again.
        with ExitStack() as undo:
            for name, place in (in_root | dict(places)).items():
                index = open_one(place)
                undo.callback(index.close)
                service._serve(name, index)
            undo.pop_all()
        return service

    def _serve(self, name: str, index: Index) -> None:
        """Serve an index under a name; its metrics are evaluated when they are read."""
        self.indexes[name] = ServedIndex(name, index, self.limits, self.metrics, self._conditions)
        self.metrics.documents.labels(name).set_function(lambda: len(index.snapshot))
        self.metrics.waiting.labels(name).set_function(lambda: self.indexes[name].waiting)
        self.metrics.bytes.labels(name).set_function(lambda: size(index.path))
        self.metrics.changes.labels(name)  # creates the counter, at 0

    async def create(
        self, name: str, settings: Mapping[str, Any], passages: str | int | None
    ) -> ServedIndex:
        """Create an index in the root folder and serve it.

        Raises a 403 without a root folder, a 409 if the name is taken, `LimitError` for too many
        indexes, and `InputError` as `RootFolder.create` does.
        """
        async with self._changing:
            if self.root is None:
                raise HTTPException(403, IN_ROOT)
            if name in self.indexes:
                raise HTTPException(409, f"index {name!r} exists; expected a new name")
            if len(self.indexes) >= self.limits.indexes:
                raise LimitError(413, f"{len(self.indexes)} indexes; expected fewer for another")
            create = partial(self.root.create, name, settings, passages)
            self._serve(name, await asyncio.to_thread(create))
            return self.indexes[name]

    async def drop(self, name: str) -> int:
        """Remove an index of the root folder after running requests; returns its documents.

        Raises a 403 for any other index, and `InUseError` if another process uses it.
        """
        async with self._changing:
            served = self.get(name)
            path = served.index.path
            if self.root is None or path.parent != self.root.path:
                raise HTTPException(403, IN_ROOT)
            documents = len(served.index.snapshot)
            del self.indexes[name]
            metrics = self.metrics
            for each in (metrics.documents, metrics.waiting, metrics.bytes, metrics.changes):
                each.remove(name)
            await served.close()
            try:
                await asyncio.to_thread(self.root.drop, path)
            except BaseException:
                if path.exists():  # not removed: serve it again
                    self._serve(name, await asyncio.to_thread(self.open_one, path))
                raise
            return documents

    def get(self, name: str) -> ServedIndex:
        """Return the index of a name; raises a 404 if unknown."""
        if name not in self.indexes:
            known = sorted(self.indexes)
            expected = f"one of {', '.join(known)}" if known else "none: there is no index yet"
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
        return message if self.root is None else message.replace(f"{self.root.path}/", "")

    async def load(self) -> None:
        """Load what the first query to each index requires; then `is_ready` is true.

        Failures are logged and tried again, at longer and longer intervals: an encoder's server may
        start after this one. Queries meanwhile try, too, and report them.
        """
        loaded = set[str]()
        wait = 1
        while True:
            for name, index in [*self.indexes.items()]:
                if name in loaded:
                    continue
                is_loaded = await _load(name, index)
                if is_loaded:
                    loaded.add(name)
            if self.indexes.keys() <= loaded:
                break
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


class RootFolder:
    """A folder whose sub-folders NAME.index are indexes that callers may create and drop.

    What interrupted drops have left there is removed. `make_encoder` loads the encoder that new
    indexes share; before an index is dropped, other processes that write to it get `wait` seconds.
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
        self.path = path.resolve()
        self._make_encoder = cache(make_encoder)
        self._wait = wait
        self._shared_filesystem = shared_filesystem
        for left in path.glob(f".*{ENDING}{DROPPED}"):
            rmtree(left, ignore_errors=True)

    @property
    def places(self) -> dict[str, Path]:
        """Folders of the existing indexes, by name."""
        places = {}
        for folder in sorted(self.path.glob(f"*{ENDING}")):
            name = folder.name.removesuffix(ENDING)
            if _NEW_NAME.fullmatch(name) and is_index(folder) and not folder.is_symlink():
                places[name] = folder
        return places

    def create(
        self, name: str, settings: Mapping[str, Any], passages: str | int | None = AUTO
    ) -> Index:
        """Create an empty index.

        Raises `InputError` if the name or a setting is invalid, or the folder exists.
        """
        if not _NEW_NAME.fullmatch(name):
            raise InputError(
                f"index name {name[:100]!r}; expected letters, digits, '-', '_' and '.', at most "
                "100, and a letter or digit first"
            )
        place = self.path / f"{name}{ENDING}"
        if place.exists():
            raise InputError(f"index {name!r} exists; expected a new name")
        encoder = self._make_encoder()
        return create_index(
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
        rmtree(gone, ignore_errors=True)  # left by an interrupted drop
        with FileLock(place, "writer").hold(self._wait):
            pass  # Windows renames no folder with an open file: a writer may still come between
        try:
            os.rename(place, gone)
        except PermissionError as error:
            raise InUseError(f"{place}: in use ({error.strerror}); expected none") from error
        sync(self.path)
        rmtree(gone, ignore_errors=True)


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

    Names that would be equal get those of the folders above. Raises `InputError` if a name is not
    valid in a URL, or occurs twice.

    >>> parse_places(["/srv/news.index", "old=/srv/2019"])
    {'news': PosixPath('/srv/news.index'), 'old': PosixPath('/srv/2019')}
    >>> parse_places(["/srv/notes/.slimdex"])
    {'notes': PosixPath('/srv/notes/.slimdex')}
    >>> [*parse_places(["/srv/a/notes/.slimdex", "/srv/b/notes/.slimdex"])]
    ['a-notes', 'b-notes']
    """
    folders = list[Path]()
    names = list[list[str]]()
    for word in words:
        prefix, _, rest = word.partition("=")
        is_named = bool(rest) and not Path(word).exists()  # a folder's own name may contain "="
        folders.append(Path(rest if is_named else word))
        names.append([prefix] if is_named else [*index_names(folders[-1].resolve())])

    places = dict[str, Path]()
    for word, folder, possible in zip(words, folders, names, strict=True):
        # Take the first name that no other folder could have.
        unique = (name for name in possible if sum(name in each for each in names) == 1)
        name = next(unique, possible[0])
        if not _NAME.fullmatch(name):
            raise InputError(f"{word}: index name {name!r}; expected {NAMED_FOLDER}")
        if name in places:
            raise InputError(
                f"{word}: a second index {name!r}; expected another name: {NAMED_FOLDER}"
            )
        places[name] = folder
    return places
