"""Limits: what one caller may ask for, so that no one takes the memory or the time of all."""

from __future__ import annotations

from dataclasses import dataclass

from slimdex.indexes.errors import SlimdexError

MIB = 1 << 20


class LimitError(SlimdexError):
    """More than a limit allows; it has the HTTP status that says so.

    Attributes
    ----------
    status : 413, 408, 503 or 504.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """What is refused, each with a line that states the value and the limit.

    Attributes
    ----------
    body : bytes of a request, except documents in bulk, which may have any number of lines.
    bodies : bytes of the bodies of all requests that are under way.
    line : bytes of a line of documents in bulk.
    queries : in one search.
    text : characters of a query, or of a text to be encoded.
    hits : that a search may ask for.
    seconds : that a search may take, waiting included.
    idle : seconds in which a body has to be whole; of documents in bulk, each line.
    waiting : queries that may wait for their turn, of all callers together.
    batch : queries that are encoded and searched together.
    senders : callers who may send documents in bulk at a time.
    commit : documents in bulk that are made durable together.
    commit_bytes : and their bytes.
    """

    body: int = 8 * MIB
    bodies: int = 512 * MIB
    line: int = 16 * MIB
    queries: int = 256
    text: int = 100_000
    hits: int = 1000
    seconds: float = 30.0
    idle: float = 60.0
    waiting: int = 2048
    batch: int = 256
    senders: int = 8
    commit: int = 1024
    commit_bytes: int = 16 * MIB
