"""Progress: reports of long work for listeners set by the caller, and times of its stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from time import perf_counter

Progress = Callable[[str, int, int], None]
"""Called as ``listener(stage, done, total)``, for example ``("encoding", 2048, 60523)``."""
Note = Callable[[str], None]
"""Called with a line for the user."""
_PROGRESS: ContextVar[Progress | None] = ContextVar("progress", default=None)
_NOTE: ContextVar[Note | None] = ContextVar("note", default=None)
_SPENT: ContextVar[dict[str, float] | None] = ContextVar("spent", default=None)
_UNTIMED: AbstractContextManager[None] = nullcontext()


@contextmanager
def listening(progress: Progress | None = None, note: Note | None = None) -> Iterator[None]:
    """Report this thread's long work to listeners within a `with`; None keeps the current one.

    An exception raised by a listener ends the work, like any other.

    >>> with listening(print, print):
    ...     progress("encoding", 64, 128)
    ...     note("2 texts were empty")
    encoding 64 128
    2 texts were empty
    >>> progress("encoding", 128, 128)
    """
    progress_token = _PROGRESS.set(progress or _PROGRESS.get())
    note_token = _NOTE.set(note or _NOTE.get())
    try:
        yield
    finally:
        _PROGRESS.reset(progress_token)
        _NOTE.reset(note_token)


def progress(stage: str, done: int, total: int) -> None:
    """Report progress of a stage, if anyone listens."""
    listener = _PROGRESS.get()
    if listener is not None:
        listener(stage, done, total)


@contextmanager
def progress_within(change: Callable[[str, int, int], tuple[int, int] | None]) -> Iterator[None]:
    """Report progress within the block as progress of a larger task.

    `change` maps stage, done and total to done and total of the task, or to None to drop the
    report.

    >>> with listening(print), progress_within(lambda stage, done, total: (1000 + done, 5000)):
    ...     progress("encoding", 64, 128)
    encoding 1064 5000
    """
    outer = _PROGRESS.get()

    def listener(stage: str, done: int, total: int) -> None:
        changed = change(stage, done, total)
        if outer is not None and changed is not None:
            outer(stage, *changed)

    with listening(listener):
        yield


def note(line: str) -> None:
    """Report a line for the user, if anyone listens."""
    listener = _NOTE.get()
    if listener is not None:
        listener(line)


@contextmanager
def spent() -> Iterator[dict[str, float]]:
    """Collect the seconds that this thread spends in each stage.

    >>> with spent() as seconds:
    ...     with stage("scan"):
    ...         pass
    >>> list(seconds)
    ['scan']
    """
    seconds = dict[str, float]()
    token = _SPENT.set(seconds)
    try:
        yield seconds
    finally:
        _SPENT.reset(token)


def stage(name: str) -> AbstractContextManager[None]:
    """Time the block as a stage of this name, if `spent` is active."""
    seconds = _SPENT.get()
    return _UNTIMED if seconds is None else _timing(seconds, name)


@contextmanager
def _timing(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = perf_counter()
    try:
        yield
    finally:
        seconds[name] = seconds.get(name, 0.0) + perf_counter() - start
