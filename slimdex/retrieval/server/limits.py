"""Limits of a request, so that no caller takes all memory or time."""

from __future__ import annotations

from dataclasses import dataclass

from slimdex.indexes.errors import SlimdexError

MIB = 1 << 20


class LimitError(SlimdexError):
    """A limit was exceeded.

    `status` is the HTTP status: 413, 408, 503 or 504.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """Limits of requests; refusals state the value and the limit.

    Attributes
    ----------
    body : bytes of a request, except bulk uploads, which may have any number of lines.
    bodies : total bytes of the bodies of all running requests.
    line : bytes of a line of a bulk upload.
    file : bytes of an uploaded file.
    indexes : indexes of a service with a root folder.
    queries : queries in one search.
    text : characters of a query, or of a text to encode.
    hits : hits per search.
    seconds : time of a search, including waiting.
    idle : seconds for receiving a body, or a line of a bulk upload.
    stall : seconds without a byte of a body that is held in memory.
    waiting : waiting queries of all callers together.
    batch : queries encoded and searched together.
    senders : concurrent bulk uploads.
    commit : documents of a bulk upload committed together.
    commit_bytes : bytes of documents committed together.
    """

    body: int = 8 * MIB
    bodies: int = 64 * MIB
    line: int = 16 * MIB
    file: int = 64 * MIB
    indexes: int = 100
    queries: int = 256
    text: int = 100_000
    hits: int = 1000
    seconds: float = 30.0
    idle: float = 60.0
    stall: float = 10.0
    waiting: int = 2048
    batch: int = 256
    senders: int = 8
    commit: int = 1024
    commit_bytes: int = 16 * MIB
