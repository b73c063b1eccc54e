"""Matches: a cache of the rows that match the most recent conditions.

Programs repeat conditions, and evaluating one in DuckDB takes as long as a search. Rows never
change, so after a commit only its new rows are evaluated.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows

MOST_CONDITIONS = 8
"""Largest number of conditions in the cache, each of which takes a bit a row."""


@dataclass(frozen=True)
class MatchBits:
    """Rows before `stop` that match a condition, a bit for each row."""

    bits: NDArray[np.uint8]
    stop: int = 0

    def extend(self, rows: Rows, stop: int) -> MatchBits:
        """Return these matches and the later ones in `rows`, which are all before row `stop`."""
        flags = np.unpackbits(self.bits, count=self.stop)
        flags.resize(stop)  # with zeros
        flags[rows] = 1
        return MatchBits(np.packbits(flags), stop)

    def rows(self, stop: int) -> Rows:
        """Return the matching rows before `stop`, in order."""
        return np.flatnonzero(np.unpackbits(self.bits, count=stop).view(np.bool_))


NOTHING = MatchBits(np.zeros(0, dtype=np.uint8))


class Matches:
    """Rows that match the last `MOST_CONDITIONS` conditions, for any thread.

    >>> matches = Matches()
    >>> matches.keep("even", matches.of("even").extend(np.array([0, 2]), 4))
    >>> matches.of("even").stop, matches.of("even").rows(2).tolist()
    (4, [0])
    """

    def __init__(self) -> None:
        self._known = OrderedDict[str, MatchBits]()
        self._lock = Lock()

    def of(self, where: str) -> MatchBits:
        """Return what is known of a condition; `NOTHING` if that was not kept, or is no text."""
        if not isinstance(where, str):
            return NOTHING
        with self._lock:
            return self._known.get(where, NOTHING)

    def keep(self, where: str, matches: MatchBits) -> None:
        """Remember the matches of a condition; forget the least recently used one."""
        with self._lock:
            self._known[where] = matches
            self._known.move_to_end(where)
            if len(self._known) > MOST_CONDITIONS:
                self._known.popitem(last=False)
