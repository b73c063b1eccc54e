"""Workers for tests: what goes out and what comes back has been pickled, as between processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")


class ThroughPickle:
    """Computes here, with copies; `computed` counts the parts."""

    def __init__(self) -> None:
        self.computed = 0

    def map(
        self, function: Callable[[Part], Result], parts: Iterable[Part]
    ) -> Iterator[tuple[Part, Result]]:
        """Each part with the function of it."""
        sent = pickle.dumps(function)
        for part in parts:
            self.computed += 1
            actual: Result = pickle.loads(
                pickle.dumps(pickle.loads(sent)(pickle.loads(pickle.dumps(part))))
            )
            yield part, actual
