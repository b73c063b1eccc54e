"""What a loss of power can leave, played from a trace of the calls that a process made.

POSIX promises no more than this: a file's bytes are as they were at its last fsync, and a folder's
names as at the folder's. Of what was done since, any part may be there: each sector of each write,
and each change of a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from .faults import Call, Kind

THEIR_WORK = ".tantivy.tmp/"
"""In the path of a file that tantivy makes by calls that no trace has. Its folder is removed; if
that fails, its files are synced with the rest of a new index, which changes nothing."""
DELETED = " (deleted)"
"""End of the path of a file that has no name any more, to which a thread still writes."""
SECTOR = 512
"""Bytes that a disk writes whole or not at all."""
Image = dict[str, bytes | None]
"""Path -> bytes, or None for a folder."""
Write = tuple[int, bytes | None]
"""Bytes at an offset; None cuts or lengthens the file to it."""
Naming = tuple[str, "Node | None"]
"""What a name means from now on; None removes it."""


@dataclass
class File:
    """Bytes that are durable, and what was done since."""

    durable: bytes = b""
    since: list[Write] = field(default_factory=list)

    def left(self, keep: Keep) -> bytes:
        kept = keep.writes(self.since)
        if not kept:  # most files: no copy is made, and its hash is known
            return self.durable
        found = bytearray(self.durable)
        for at, data in kept:
            end = at if data is None else at + len(data)
            found.extend(bytes(max(end - len(found), 0)))
            if data is None:
                del found[at:]
            else:
                found[at:end] = data
        return bytes(found)

    def sync(self) -> None:
        self.durable, self.since = self.left(ALL), []


@dataclass
class Folder:
    """Names that are durable, and the changes since; those of one call stay together."""

    durable: dict[str, Node] = field(default_factory=dict)
    since: list[list[Naming]] = field(default_factory=list)

    def left(self, keep: Keep) -> dict[str, Node]:
        found = dict(self.durable)
        for change in keep.namings(self.since):
            for name, node in change:
                found.pop(name, None)
                if node is not None:
                    found[name] = node
        return found

    def sync(self) -> None:
        self.durable, self.since = self.left(ALL), []


Node = File | Folder


@dataclass(frozen=True)
class Keep:
    """Which of the changes that are not durable survive."""

    writes: Callable[[list[Write]], list[Write]]
    namings: Callable[[list[list[Naming]]], list[list[Naming]]]


ALL = Keep(writes=lambda since: since, namings=lambda since: since)
KEEPS = {
    "nothing": Keep(writes=lambda since: [], namings=lambda since: []),
    "names": Keep(writes=lambda since: [], namings=lambda since: since),
    "bytes": Keep(writes=lambda since: since, namings=lambda since: []),
    "all": ALL,
}


def some(random: Random) -> Keep:
    """Any of the writes and of the names' changes."""
    return Keep(
        writes=lambda since: [write for write in since if random.random() < 0.5],
        namings=lambda since: [change for change in since if random.random() < 0.5],
    )


def torn(random: Random) -> Keep:
    """Any of the sectors that were written, and of the names' changes."""
    return Keep(
        writes=lambda since: [
            sector for write in since for sector in sectors(write) if random.random() < 0.5
        ],
        namings=some(random).namings,
    )


def sectors(write: Write) -> Iterator[Write]:
    """The parts of a write that a disk makes, whole or not."""
    at, data = write
    if data is None:
        yield write
        return
    start = 0
    while start < len(data):
        stop = (at + start) // SECTOR * SECTOR + SECTOR - at
        yield at + start, data[start:stop]
        start = stop


@dataclass
class Disk:
    """A folder as its files and names are now."""

    path: str
    root: Folder

    @classmethod
    def of(cls, base: Path, path: str) -> Disk:
        """A copy of a folder, as if at another path, all of it durable."""

        def node(path: Path) -> Node:
            if path.is_file():
                return File(path.read_bytes())
            return Folder({child.name: node(child) for child in path.iterdir()})

        root = node(base)
        assert isinstance(root, Folder)
        return cls(path, root)

    def node(self, path: str) -> Node:
        found: Node = self.root
        for name in Path(path).relative_to(self.path).parts:
            assert isinstance(found, Folder)
            found = found.left(ALL)[name]
        return found

    def play(self, call: Call) -> None:
        if call.path.endswith(DELETED) or self._is_late(call.path):
            return
        if call.kind == Kind.SYNC:
            if THEIR_WORK not in call.path:
                self.node(call.path).sync()
        elif call.kind in (Kind.WRITE, Kind.TRUNCATE):
            file = self.node(call.path)
            assert isinstance(file, File)
            file.since.append((call.offset, call.data if call.kind == Kind.WRITE else None))
        elif call.kind == Kind.RENAME:
            gone: Naming = (Path(call.path).name, None)
            new: Naming = (Path(call.second).name, self.node(call.path))
            if Path(call.path).parent == Path(call.second).parent:
                self._change(call.path, [gone, new])
            else:  # of two folders, either change may survive alone
                self._change(call.second, [new])
                self._change(call.path, [gone])
        elif call.kind == Kind.LINK:
            self._change(call.second, [(Path(call.second).name, self.node(call.path))])
        else:
            made: dict[Kind, Callable[[], Node]] = {Kind.CREATE: File, Kind.MKDIR: Folder}
            make = made.get(call.kind)
            self._change(call.path, [(Path(call.path).name, make() if make else None)])

    def _is_late(self, path: str) -> bool:
        """True if a folder of tantivy's is gone: its threads make calls before, traced after."""
        if THEIR_WORK not in path:
            return False
        try:
            self.node(str(Path(path).parent))
        except KeyError:
            return True
        return False

    def _change(self, path: str, change: list[Naming]) -> None:
        folder = self.node(str(Path(path).parent))
        assert isinstance(folder, Folder)
        folder.since.append(change)

    def image(self, keep: Keep) -> Image:
        """What is found after the power was lost now."""

        def paths(folder: Folder, at: str) -> Iterator[tuple[str, bytes | None]]:
            for name, node in folder.left(keep).items():
                if isinstance(node, File):
                    yield at + name, node.left(keep)
                else:
                    yield at + name, None
                    yield from paths(node, f"{at}{name}/")

        return dict(sorted(paths(self.root, "")))


@dataclass(frozen=True)
class Loss:
    """A loss of power: after how many calls, how much was acknowledged then, and what is left."""

    calls: int
    kept: str
    acknowledged: int
    image: Image

    def write(self, folder: Path) -> None:
        for name, data in self.image.items():
            (folder / name).mkdir() if data is None else (folder / name).write_bytes(data)


def losses(
    base: Path, path: str, trace: list[Call], at: Sequence[int], random: Random
) -> list[Loss]:
    """After each of some calls, with none, all or a part of what was not durable.

    Each outcome is there once.
    """
    disk, acknowledged, found = Disk.of(base, path), 0, dict[int, Loss]()
    for n, call in enumerate(trace):
        if call.kind == Kind.MARK:
            acknowledged += 1
        else:
            disk.play(call)
        if n not in at:
            continue
        for kept, keep in (KEEPS | {"some": some(random), "torn": torn(random)}).items():
            loss = Loss(n + 1, kept, acknowledged, disk.image(keep))
            found.setdefault(hash((acknowledged, *loss.image.items())), loss)
    return list(found.values())
