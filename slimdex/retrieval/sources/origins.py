"""Origins of documents, used to synchronise an index with its sources.

An origin is a digest of a place, "/", and a stamp that changes with the file. The digest keeps
paths out of the index. The stamp is empty if a change could go unnoticed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Set
from dataclasses import dataclass

SETTLED_NS = 2_000_000_000
"""A file modified more recently may change again with the same time and size: clocks of file
systems tick every few milliseconds, FAT's every two seconds."""


@dataclass(frozen=True)
class Reading:
    """Options for reading a source into an index.

    Attributes
    ----------
    prefix : prefix of generated ids and of ids that are paths; None for the source's default.
    place : digest of the source's location; empty to record no origins.
    inside : path of this folder or file within a folder that the index knows.
    known : origins of documents in the index, whose files need not be read again.
    """

    prefix: str | None = None
    place: str = ""
    inside: str = ""
    known: Set[str] = frozenset()

    def origin(self, stamp: str) -> str:
        """Origin of a document of this source; "" if not recorded.

        >>> Reading(place="c0ffee").origin("1d"), Reading().origin("1d")
        ('c0ffee/1d', '')
        """
        return f"{self.place}/{stamp}" if self.place else ""

    def has(self, stamp: str) -> bool:
        """Return whether the index has a document with this stamp; False for an empty stamp."""
        return bool(stamp) and self.origin(stamp) in self.known


def place_digest(place: str) -> str:
    """Return an irreversible digest of a place."""
    return hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def stamp_of(changed_ns: int, *facts: object) -> str:
    """Return a stamp of some facts; empty if the file was modified just now.

    >>> stamp_of(0, "notes.md", 7) == stamp_of(0, "notes.md", 8), stamp_of(time.time_ns(), 7)
    (False, '')
    """
    if time.time_ns() - changed_ns < SETTLED_NS:
        return ""
    return hashlib.sha256(
        repr((changed_ns, *facts)).encode("utf-8", "surrogateescape")
    ).hexdigest()[:16]
