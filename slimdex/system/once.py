"""Once: a value that is made at its first use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Generic, TypeVar

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


class cached_property(functools.cached_property[T]):
    """Cached property without a lock, also before Python 3.12, where all objects share one.

    A forked process would wait forever for a thread that held it.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(function)
        self.lock = nullcontext()
