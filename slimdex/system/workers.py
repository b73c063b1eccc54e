"""Workers: parallel map over parts of a job, in this process or in others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from slimdex.errors import SlimdexError

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class PartError(SlimdexError):
    """Failure of a part in another process, with the reason."""

    def __init__(self, part: Any, why: str) -> None:
        super().__init__(why)
        self.part = part


class Workers(Protocol):
    """Executor of work that can be split into parts."""

    def map(
        self, function: Callable[[Piece], Result], parts: Iterable[Piece]
    ) -> Iterator[tuple[Piece, Result]]:
        """Yield each part with its result, in order; parts are consumed lazily.

        `function` must be picklable; it is sent once to each process. Raises `PartError` if a part
        fails in another process. Exceptions in this process propagate unchanged.
        """
        ...


class InThisProcess:
    """Sequential execution in this process.

    >>> list(InThisProcess().map(abs, [-1, 2]))
    [(-1, 1), (2, 2)]
    """

    def map(
        self, function: Callable[[Piece], Result], parts: Iterable[Piece]
    ) -> Iterator[tuple[Piece, Result]]:
        """Yield each part with its result."""
        return ((part, function(part)) for part in parts)


IN_THIS_PROCESS = InThisProcess()
