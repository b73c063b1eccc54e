"""Timing of the stages of a search, on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from time import perf_counter

_SPENT: ContextVar[dict[str, float] | None] = ContextVar("spent", default=None)
_NOT_ASKED: AbstractContextManager[None] = nullcontext()


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
    before = _SPENT.set(seconds)
    try:
        yield seconds
    finally:
        _SPENT.reset(before)


def stage(name: str) -> AbstractContextManager[None]:
    """Time the block as a stage of this name, if `spent` is active."""
    seconds = _SPENT.get()
    return _NOT_ASKED if seconds is None else _timed(seconds, name)


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = perf_counter()
    try:
        yield
    finally:
        seconds[name] = seconds.get(name, 0.0) + perf_counter() - start
