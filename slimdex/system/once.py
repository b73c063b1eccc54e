"""Once: a value that is made at its first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """A value that is made at its first use; several objects may share it.

    Two threads may make it at once: the later value stays.

    Attributes
    ----------
    value : None until it is made.

    >>> once = Once[list[int]]()
    >>> once.value, once.get(lambda: [1]), once.get(lambda: [2])
    (None, [1], [1])
    """

    def __init__(self, value: T | None = None) -> None:
        self.value = value

    def get(self, make: Callable[[], T]) -> T:
        """Return the value; `make` makes it if there is none."""
        value = self.value
        if value is None:
            value = make()
            self.value = value
        return value
