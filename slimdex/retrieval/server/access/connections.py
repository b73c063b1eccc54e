"""Connections, closed if a caller is silent or keeps sending after the answer.

Otherwise a caller who sends nothing, or one header a minute, would hold a connection forever, and
the rest of a refused body would be read for as long as it arrives.
"""

from __future__ import annotations

from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S = 30.0
"""Seconds for the head of a request, from the connection or from its first byte."""
REST_S = 5.0
"""Seconds for the rest of a body after the answer: a caller who sends all of it before reading
would lose the answer if the connection were closed at once."""


class TimedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol, with time limits on everything but bodies."""

    _timer: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect the head of a request."""
        super().connection_made(transport)
        self._expect_within(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._expect_within(None)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Expect the rest of the head."""
        self._expect_within(HEAD_S)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Leave time limits of the body to the service."""
        self._expect_within(None)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expect nothing: the request is whole."""
        self._expect_within(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Expect the rest of a body that was not read to its end."""
        super().on_response_complete()
        if self.cycle.more_body and not self.pipeline:
            self._expect_within(REST_S)

    def _expect_within(self, seconds: float | None) -> None:
        """Close the connection unless this is called again in time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._close) if seconds else None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
