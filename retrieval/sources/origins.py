"""Origins: where documents come from, so that an index can be kept in step with it.

An origin is a digest of a place (whoever gets the index learns nothing of the folders), a "/", and
a stamp that changes when the file does. Where a change could go unnoticed the stamp is empty.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Set
from dataclasses import dataclass

SETTLED_NS = 2_000_000_000
"""A file that changed so little time ago may change again with the same time and size: clocks of
file systems tick every few milliseconds, FAT's every two seconds."""


@dataclass(frozen=True)
class Reading:
    """How a source is read for an index.

    Attributes
    ----------
    prefix : what ids begin with that are made up, or are paths in a folder; None: as the source
        itself would have it.
    place : the digest of where it is; empty if nobody wants to know.
    inside : path of a folder, or of a file alone, in another folder that the index knows it by.
    known : origins of documents that the index has: of such a file nothing need be read again.
    """

    prefix: str | None = None
    place: str = ""
    inside: str = ""
    known: Set[str] = frozenset()

    def origin(self, stamp: str) -> str:
        """The origin of a document of this source; "" if nobody wants to know.

        >>> Reading(place="c0ffee").origin("1d"), Reading().origin("1d")
        ('c0ffee/1d', '')
        """
        return f"{self.place}/{stamp}" if self.place else ""

    def has(self, stamp: str) -> bool:
        """Whether the index has what bears a stamp, which says nothing if it is empty."""
        return bool(stamp) and self.origin(stamp) in self.known


def place_digest(place: str) -> str:
    """A place, not to be read."""
    return hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def stamp_of(changed_ns: int, *facts: object) -> str:
    """A stamp of some facts; empty if the file has changed just now.

    >>> stamp_of(0, "notes.md", 7) == stamp_of(0, "notes.md", 8), stamp_of(time.time_ns(), 7)
    (False, '')
    """
    if time.time_ns() - changed_ns < SETTLED_NS:
        return ""
    return hashlib.sha256(
        repr((changed_ns, *facts)).encode("utf-8", "surrogateescape")
    ).hexdigest()[:16]
