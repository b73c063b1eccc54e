"""Children whose calls to the kernel go wrong at a point of the test's choice: see `faults.c`."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Any

from .fault_child import Job, Seen

SOURCE = Path(__file__).with_suffix(".c")


class Kind(IntFlag):
    """What a call changes; as in `faults.c`."""

    WRITE = 1
    TRUNCATE = 2
    SYNC = 4
    CREATE = 8
    MKDIR = 16
    RENAME = 32
    REMOVE = 64
    MARK = 128
    LINK = 256


class Action(IntEnum):
    """What happens at the point; as in `faults.c`."""

    NOTHING = 0
    KILL_BEFORE = 1
    KILL_TORN = 2
    KILL_AFTER = 3
    FAIL = 4
    SHORT = 5


ANY = (Kind.MARK - 1) | Kind.LINK
ALLOCATES = Kind.WRITE | Kind.TRUNCATE | Kind.CREATE | Kind.MKDIR | Kind.LINK


@dataclass(frozen=True)
class Fault:
    """What goes wrong, at which kinds of calls, once or from then on."""

    action: Action = Action.NOTHING
    kinds: int = ANY
    error: int = 0
    forever: bool = False
    share: float = 0.5


KILLS = [Fault(action) for action in (Action.KILL_BEFORE, Action.KILL_TORN, Action.KILL_AFTER)]
FAULTS = [
    Fault(Action.FAIL, ALLOCATES, errno.ENOSPC, forever=True),
    Fault(Action.FAIL, ALLOCATES, errno.ENOSPC),
    Fault(Action.FAIL, ANY, errno.EIO, forever=True),
    Fault(Action.FAIL, ANY, errno.EIO),
    Fault(Action.SHORT, Kind.WRITE, forever=True),
    Fault(Action.SHORT, Kind.WRITE),
]


@dataclass(frozen=True)
class Call:
    """A call that changed something, from a trace."""

    kind: Kind
    path: str
    second: str
    offset: int
    data: bytes


def read_trace(path: Path) -> list[Call]:
    return list(_calls(path.read_bytes()))


def _calls(trace: bytes) -> Iterator[Call]:
    head, at = struct.Struct("=IIIIQQ"), 0
    while at < len(trace):
        kind, first, second, _, offset, count = head.unpack_from(trace, at)
        at += head.size
        parts = []
        for size in (first, second, count):
            parts.append(trace[at : at + size])
            at += size
        yield Call(Kind(kind), parts[0].decode(), parts[1].decode(), offset, parts[2])


@dataclass(frozen=True)
class Outcome:
    """What a child said before it ended."""

    exit: int
    acknowledged: int = 0
    said: list[dict[str, Any]] = field(default_factory=list)

    def one(self, key: str) -> Any:
        """The only word of its kind, None if there is none."""
        found = self.all(key)
        assert len(found) < 2
        return found[0] if found else None

    def all(self, key: str) -> list[Any]:
        return [words[key] for words in self.said if key in words]

    @property
    def seen(self) -> list[Seen]:
        return self.all("seen")


def compiled(folder: Path) -> Path:
    """`faults.c` as a library; raises `FileNotFoundError` where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        raise FileNotFoundError("no C compiler (cc), or no Linux")
    library = folder / "faults.so"
    flags = ["-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-pthread"]
    subprocess.run([compiler, *flags, "-o", library, SOURCE], check=True)
    return library


def preloaded(module: str, *words: str, library: Path | None) -> subprocess.Popen[str]:
    """A process that forks others, by default without the library; it ends with its stdin."""
    found = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    found |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # a fork keeps no others
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env=found if library is None else found | {"LD_PRELOAD": str(library)},
    )


class Forker:
    """A process with the library preloaded, that forks a child for each job."""

    def __init__(self, library: Path) -> None:
        self._process = preloaded("tests.retrieval.crashes.fault_child", library=library)

    def end(self) -> None:
        self._process.communicate()

    def run(self, job: Job) -> Outcome:
        """Do a job in a new child and wait for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        said: list[dict[str, Any]] = []
        for line in self._process.stdout:
            said.append(json.loads(line))
            if "exit" in said[-1]:
                last = [words["acknowledged"] for words in said if "acknowledged" in words]
                return Outcome(said[-1]["exit"], last[-1] if last else 0, said)
        raise AssertionError(f"the forker ended: {said}")
