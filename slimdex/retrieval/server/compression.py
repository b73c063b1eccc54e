"""Compression: answers are gzipped for callers who accept that, and bodies may be."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SMALLEST = 1024
"""Fewest bytes of an answer that is compressed."""
LEVEL = 4
PART = 1 << 18
"""Bytes that are decompressed at a time, so that each part is checked against the limits."""
GZIP = 16 + zlib.MAX_WBITS
"""zlib's number for gzip's format."""
LINES = b"application/x-ndjson"
"""Content type of reports, each of which has to arrive at once."""


def compress_answers(app: ASGIApp) -> ASGIApp:
    """Return an application that compresses its answers, except those sent line by line."""
    gzipping = GZipMiddleware(app, minimum_size=SMALLEST, compresslevel=LEVEL)

    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        is_plain = scope["type"] != "http" or LINES in dict(scope["headers"]).get(b"accept", b"")
        await (app if is_plain else gzipping)(scope, receive, send)

    return choose


def decompress_body(headers: Mapping[bytes, bytes], receive: Receive) -> Receive:
    """Return the callable that receives the decompressed body.

    It raises `HTTPException` for a body that is not what its header states.
    """
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding in (b"identity", b""):
        return receive
    if encoding not in (b"gzip", b"x-gzip"):
        shown = encoding[:40].decode("latin-1")
        raise HTTPException(415, f"Content-Encoding {shown!r}; expected gzip, or none")
    return _Gunzip(receive).message


class _Gunzip:
    """Reads the messages of a gzipped body, each decompressed in parts."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._stream = zlib.decompressobj(GZIP)
        self._waiting = b""  # compressed
        self._is_full = False  # the last part was, so the stream may hold more
        self._has_more = True
        self._is_over = False

    async def message(self) -> Message:
        """Return a message with the next part; raises `HTTPException` if the body is damaged."""
        if self._is_over:  # the application waits for the caller to disconnect
            return await self._receive()

        # Receive compressed bytes, unless some are left to decompress.
        while self._has_more and not (self._waiting or self._is_full):
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            self._waiting = message.get("body", b"")
            self._has_more = message.get("more_body", False)
        body = self._next_part()
        self._is_over = not (self._has_more or self._waiting or self._is_full)
        if self._is_over and not self._stream.eof:
            raise HTTPException(400, "a gzipped body that ends too early; expected all of it")
        return {"type": "http.request", "body": body, "more_body": not self._is_over}

    def _next_part(self) -> bytes:
        """Decompress the next `PART` bytes, or as many as have arrived."""
        if self._stream.eof and self._waiting:  # another gzip member follows
            self._stream = zlib.decompressobj(GZIP)
        try:
            body = self._stream.decompress(self._waiting, PART)
        except zlib.error as error:
            raise HTTPException(
                400, f"the body is not gzip ({error}); expected what Content-Encoding states"
            ) from error
        is_over = self._stream.eof
        self._waiting = self._stream.unused_data if is_over else self._stream.unconsumed_tail
        self._is_full = len(body) == PART and not is_over
        return body
