"""Workers: where a function of many parts is computed, in this process or in many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from .errors import SlimdexError

Part = TypeVar("Part")
Result = TypeVar("Result")


class PartError(SlimdexError):
    """A part that other processes can't compute, and why."""

    def __init__(self, part: Any, why: str) -> None:
        super().__init__(why)
        self.part = part


class Workers(Protocol):
    """What long work is given to that can be cut into parts."""

    def map(
        self, function: Callable[[Part], Result], parts: Iterable[Part]
    ) -> Iterator[tuple[Part, Result]]:
        """Each part with the function of it, in the parts' order; parts are taken as needed.

        Parameters
        ----------
        function : one that pickle takes; it is sent once to each process that computes.

        Raises
        ------
        PartError
            If other processes can't compute a part. What the function raises in this process is
            raised as it is.
        """
        ...


class InThisProcess:
    """No other workers: one part after the other, here.

    >>> list(InThisProcess().map(abs, [-1, 2]))
    [(-1, 1), (2, 2)]
    """

    def map(
        self, function: Callable[[Part], Result], parts: Iterable[Part]
    ) -> Iterator[tuple[Part, Result]]:
        """Each part with the function of it."""
        return ((part, function(part)) for part in parts)


HERE = InThisProcess()
