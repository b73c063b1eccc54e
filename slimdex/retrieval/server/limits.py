"""Limits of a request, so that no caller takes all memory or time."""

from __future__ import annotations

from dataclasses import dataclass

from slimdex.errors import SlimdexError

MIB = 1 << 20


class LimitError(SlimdexError):
    """A limit was exceeded.

    `status` is the HTTP status: 413, 408, 422, 503 or 504.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """Limits of requests; refusals state the value and the limit."""

    body: int = 8 * MIB  # bytes of a request, but of an uploaded file
    file: int = 64 * MIB  # bytes of an uploaded file
    queries: int = 256  # in one search
    texts: int = 2048  # to encode together, as many as OpenAI's API takes
    text: int = 100_000  # characters of a query, or of a text to encode
    hits: int = 1000  # per search
    seconds: float = 30.0  # of a search, including waiting
    idle: float = 60.0  # seconds without more of a body
    waiting: int = 2048  # queries of all callers together
    batch: int = 256  # queries encoded and searched together
