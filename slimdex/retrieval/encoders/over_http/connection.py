"""JSON over HTTP to one server, retried where that may help; its address, and its key.

The standard library's client: importing httpx takes as long as a whole search.
"""

from __future__ import annotations

import json
import os
import re
import ssl
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from ipaddress import ip_address
from itertools import chain
from pathlib import Path
from random import random
from socket import gaierror
from threading import Event
from time import monotonic, time
from typing import Any
from urllib.parse import SplitResult, urlsplit
from weakref import finalize

from slimdex.errors import InputError, shorten

TRIES = 6
FIRST_WAIT = 0.5
"""Seconds before the second try, doubled before each later one."""
LONGEST_WAIT = 300.0
"""Longest wait that a server may ask for, in seconds."""
TIMEOUT = 120.0
"""Seconds for each answer."""
MOST_BYTES = 1 << 28
PIECE = 1 << 16
NEVER = Event()
_NOBODY = (ConnectionRefusedError, gaierror, ssl.SSLError)
"""Faults that say, at the first request, that the URL is wrong."""
_TOO_LONG = re.compile(
    r"too (large|long)|maximum context|context (length|size)|physical batch size", re.IGNORECASE
)
"""Message of a server's error that a text is too long, which llama.cpp sends with status 500."""
LOCAL = "localhost"
KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
"""Environment of OpenAI's own clients, with the meaning that it has there."""
OPENAI = "https://api.openai.com/v1"


class RefusedError(InputError):
    """Answer of a server that another try would not change; `status` is that of HTTP."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


class BusyError(InputError):
    """The server's last answer after all tries was 503: it is busy."""


class JsonServer:
    """A server that speaks JSON, with open connections to it; for any number of threads.

    A forked process opens its own: on its parent's, answers would be mixed up.

    Parameters
    ----------
    url : base of all URLs.
    key : sent to this server with each request, and shown nowhere.
    timeout : seconds for each answer.
    """

    def __init__(self, url: str, key: str | None = None, timeout: float = TIMEOUT) -> None:
        self.url = url
        self._key = key
        self._timeout = timeout
        self._parts = urlsplit(url)
        self._idle = defaultdict[int, list[HTTPConnection]](list)
        finalize(self, _close, self._idle)
        self._has_answered = False
        self._proxy = _proxy(self._parts.scheme, self._parts.hostname or "")

        # For http, a proxy needs the whole URL in the request line.
        needs_whole_url = self._proxy is not None and self._parts.scheme == "http"
        self._base = url if needs_whole_url else self._parts.path
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"

    def ask(self, path: str, body: object = None, stopped: Event = NEVER) -> Any:
        """Send JSON to the URL with this path added, or get what is there; return the answer.

        Lost connections and the statuses 408, 425, 429 and 5xx are retried, after the time that the
        server asks for, unless the message says that a text is too long.

        Raises
        ------
        RefusedError
            For any other status, and an answer that is no JSON; with status 413 if a text is too
            long.
        BusyError
            If the last of all tries is answered with 503.
        InputError
            If all tries fail otherwise, or `stopped` is set meanwhile.
        """
        reason = ""
        status = 0
        for attempt in range(TRIES):
            # The random part keeps clients from retrying all at the same moment.
            wait = FIRST_WAIT * 2**attempt * (1 + random() / 4)

            # One try: its answer, or the reason of a failure that may pass.
            try:
                response, content = self._exchange(path, body)
            except (OSError, HTTPException) as error:
                reason = self._safe(f"{type(error).__name__} {error}")
                status = 0
                if not self._has_answered and isinstance(error, _NOBODY):
                    raise InputError(f"{self.url}: {reason}; expected a server there") from None
            else:
                self._has_answered = True
                if response.status < 300:
                    return self._parse(path, response, content)
                status = response.status
                reason = self._safe(f"{status} {_message(content) or response.reason}")
                if status == 500 and _TOO_LONG.search(reason):
                    raise RefusedError(f"{self.url}{path}: {reason}", 413)
                if response.status not in (408, 425, 429) and response.status < 500:
                    raise RefusedError(f"{self.url}{path}: {reason}", response.status)
                wait = max(wait, _retry_after(response.getheader("Retry-After")))

            # Wait before the next try.
            if wait > LONGEST_WAIT:
                raise InputError(f"{self.url}{path}: {reason}; asks to wait for {wait:.0f} seconds")
            if attempt + 1 < TRIES and stopped.wait(wait):
                raise InputError(f"{self.url}{path}: stopped")
        kind = BusyError if status == 503 else InputError
        raise kind(f"{self.url}{path}: {reason} ({TRIES} tries)")

    def _exchange(self, path: str, body: object) -> tuple[HTTPResponse, bytes]:
        """Send one request over an idle or new connection; return the response and its content.

        The connection stays open for later requests, unless it fails or the server closes it.
        """
        try:
            connection = self._idle[os.getpid()].pop()
            is_reused = True
        except IndexError:
            connection = self._connect()
            is_reused = False
        method = "GET" if body is None else "POST"
        content = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, self._base + path, content, self._headers)
            response = connection.getresponse()
            answer = _read(response, self._timeout)
        except ConnectionError:
            connection.close()
            if is_reused:  # the server had closed it: not counted as a try
                return self._exchange(path, body)
            raise
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._idle[os.getpid()].append(connection)
        return response, answer

    def _connect(self) -> HTTPConnection:
        """Create a connection to the server, or to the proxy if there is one."""
        host = self._parts.hostname or ""
        port = self._parts.port
        address = (host, port) if self._proxy is None else self._proxy
        if self._parts.scheme == "http":
            return HTTPConnection(*address, timeout=self._timeout)
        context = ssl.create_default_context()
        connection = HTTPSConnection(*address, timeout=self._timeout, context=context)
        if self._proxy is not None:
            connection.set_tunnel(host, port)
        return connection

    def _parse(self, path: str, response: HTTPResponse, content: bytes) -> Any:
        """Parse an answer; raise `RefusedError` if it is not JSON."""
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            kind = response.getheader("Content-Type", "something else")
            reason = self._safe(f"{kind}; expected JSON")
            raise RefusedError(f"{self.url}{path}: {reason}", response.status) from None

    def _safe(self, reason: str) -> str:
        """Return a message as one short line, without the key, which some servers repeat."""
        without_key = reason.replace(self._key, "***") if self._key else reason
        line = " ".join(without_key.split())
        return line if len(line) <= 300 else f"{line[:300]}..."


def _close(idle: Mapping[int, list[HTTPConnection]]) -> None:
    for connection in chain.from_iterable(idle.values()):
        connection.close()


def _read(response: HTTPResponse, seconds: float) -> bytes:
    """Read a response in full, within some seconds.

    Raises `HTTPException` if it is truncated, `TimeoutError` if it takes longer, and `InputError`
    if it is too large.
    """
    parts = list[bytes]()
    total = 0
    until = monotonic() + seconds
    expected = response.length  # None if its end is marked otherwise
    while expected is None or total < expected:
        part = response.read1(PIECE)
        if not part:
            break
        parts.append(part)
        total += len(part)
        if total > MOST_BYTES:
            raise InputError(f"an answer of over {MOST_BYTES} bytes; expected fewer")
        if monotonic() > until:
            raise TimeoutError(f"no whole answer after {seconds:g} seconds")
    if expected is not None and total < expected:
        raise IncompleteRead(b"".join(parts), expected - total)
    response.close()
    return b"".join(parts)


def _message(content: bytes) -> str:
    """Return the message of an error response: a field of its JSON, or its first words."""
    text = content[:2000].decode(errors="replace")
    try:
        error = json.loads(content)
    except (ValueError, RecursionError):
        return shorten(text.strip(), 100) if text.strip() else ""
    # The message may be nested, as in {"error": {"message": ...}}.
    for name in ("error", "message", "detail"):
        if isinstance(error, dict) and error.get(name):
            error = error[name]
    return error if isinstance(error, str) else json.dumps(error)


def _retry_after(value: str | None) -> float:
    """Return the seconds to wait by a Retry-After header, which states seconds or a date.

    Returns 0 for a date in the past, and for a missing or invalid header.

    >>> _retry_after("7"), _retry_after("soon"), _retry_after("Wed, 21 Oct 2015 07:28:00 GMT")
    (7.0, 0.0, 0.0)
    """
    try:
        return max(0.0, float(value or 0))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value or "").timestamp() - time())
    except ValueError:
        return 0.0


def _proxy(scheme: str, host: str) -> tuple[str, int | None] | None:
    """Host and port of the proxy that the environment names for a host, if any."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass  # slow to load, only for proxies

    proxy = getproxies().get(scheme)
    if proxy is None or proxy_bypass(host):
        return None
    parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    return parts.hostname or "", parts.port


@dataclass(frozen=True)
class Address:
    """A server, and the name of a model there, if given."""

    url: str
    model: str | None = None


def parse_address(text: str) -> Address:
    """Parse ``http://HOST/PATH#MODEL``.

    Raises `InputError` for a URL that has no host, or has a part that may hold a secret, since an
    index records it.

    >>> parse_address("http://localhost:11434/v1/#all-minilm")
    Address(url='http://localhost:11434/v1', model='all-minilm')
    """
    base, _, model = text.partition("#")
    parts = _parts(base)
    if parts.username is not None or parts.password is not None or parts.query:
        raise InputError(
            f"model {parts.scheme}://{parts.hostname}: a URL with a password or a query; expected "
            "http://HOST/PATH#NAME, and the key in a file (api_key_file) or the environment"
        )
    return Address(base.rstrip("/"), model or None)


def key_for(url: str, file: str | Path | None = None) -> str | None:
    """Return the key to send to a server: that of a file, or the environment's, or None.

    ``OPENAI_API_KEY`` is sent only to the scheme, host and port of ``OPENAI_BASE_URL``, by default
    OpenAI's: the URL may come from an index that somebody else has made.

    Raises `InputError` if the file can't be read, or has no key in one line.
    """
    if file is None:
        key = os.environ.get(KEY_VARIABLE, "").strip()
        ours = _origin(os.environ.get(URL_VARIABLE) or OPENAI) == _origin(url)
        return _check_key(key, KEY_VARIABLE) if key and ours else None
    try:
        key = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise InputError(f"{file}: {reason}; expected a file with a key") from None
    return _check_key(key, str(file))


def _check_key(key: str, place: str) -> str:
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"{place}: expected one line with a key, in ASCII")
    return key


def _origin(url: str) -> tuple[str, str | None, int]:
    """Return scheme, host and port of a URL; the port defaults to the scheme's."""
    parts = _parts(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _parts(url: str) -> SplitResult:
    """Split a URL; raise `InputError` unless it is http or https, with a host."""
    try:
        parts = urlsplit(url)
        is_valid = parts.port != 0 and parts.hostname and url.isascii() and url.isprintable()
    except ValueError:  # a port that is no number, brackets that do not close
        is_valid = False
    if not is_valid or parts.scheme not in ("http", "https") or " " in url:
        raise InputError(f"model {url!r}; expected http://HOST/PATH#NAME")
    return parts


def is_loopback(host: str) -> bool:
    """True if a service that listens at a host is reachable only from this machine.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == LOCAL
