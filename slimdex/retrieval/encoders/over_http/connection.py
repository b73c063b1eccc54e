"""JSON over HTTP to one server, retried where that may help; its address, and its key."""

from __future__ import annotations

import json
import os
import re
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import BaseHTTPResponse, PoolManager, ProxyManager, Retry
from urllib3.exceptions import HTTPError, MaxRetryError

from slimdex.errors import InputError

TIMEOUT = 120.0
"""Seconds for each answer."""
CONNECTIONS = 8
"""Most idle connections to a server."""
LONGEST_REASON = 300
"""Characters of an error."""
_TOO_LONG = re.compile(
    rb"too (large|long)|maximum context|context (length|size)|physical batch size", re.IGNORECASE
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


class _Retries(Retry):
    """Retries of what may pass; a text that is too long does not."""

    def increment(self, *request: Any, **outcome: Any) -> Self:
        """Count a failure; raise `MaxRetryError` if another try would not help."""
        response: BaseHTTPResponse | None = outcome.get("response")
        if response is not None and _TOO_LONG.search(response.data):
            raise MaxRetryError(outcome["_pool"], request[1])
        return super().increment(*request, **outcome)


RETRIES = _Retries(
    total=5,
    connect=2,  # fails soon if nobody answers there
    other=0,
    allowed_methods=None,
    status_forcelist=(408, 425, 429, *range(500, 600)),
    backoff_factor=0.5,
    backoff_jitter=0.25,
    raise_on_status=False,
)
"""At once, then after 1, 2, 4 and 8 seconds, or when the server says."""


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
        self._pools = dict[int, PoolManager]()

    def ask(self, path: str, body: object = None) -> Any:
        """Send JSON to the URL with this path added, or get what is there; return the answer.

        Lost connections and the statuses 408, 425, 429 and 5xx are retried, after the time that the
        server asks for, unless the message says that a text is too long.

        Raises
        ------
        RefusedError
            For any other status, and an answer that is no JSON.
        BusyError
            If the last of all tries is answered with 503.
        InputError
            If there is no answer.
        """
        place = f"{self.url}{path}"
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            response = self._pool().request(
                "GET" if body is None else "POST",
                place,
                body=None if body is None else json.dumps(body),
                headers=headers,
                timeout=self._timeout,
                retries=RETRIES,
                redirect=False,
            )
        except HTTPError as error:
            raise InputError(self._safe(f"{place}: {getattr(error, 'reason', error)}")) from None

        status = response.status
        if status < 300:
            try:
                return response.json()
            except ValueError:
                raise RefusedError(f"{place}: expected an answer in JSON", status) from None
        reason = self._safe(f"{place}: {status} {_message(response) or response.reason}")
        if status == 503:
            raise BusyError(reason)
        raise RefusedError(reason, 413 if _TOO_LONG.search(response.data) else status)

    def _pool(self) -> PoolManager:
        """Connections of this process, through the environment's proxy if there is one."""
        process = os.getpid()
        if process not in self._pools:
            parts = urlsplit(self.url)
            proxy = getproxies().get(parts.scheme)
            if proxy is None or proxy_bypass(parts.hostname or ""):
                pool = PoolManager(maxsize=CONNECTIONS)
            else:
                pool = ProxyManager(proxy, maxsize=CONNECTIONS)
            self._pools[process] = pool
        return self._pools[process]

    def _safe(self, reason: str) -> str:
        """Return a message as one short line, without the key, which some servers repeat."""
        without_key = reason.replace(self._key, "***") if self._key else reason
        return " ".join(without_key.split())[:LONGEST_REASON]


def _message(response: BaseHTTPResponse) -> str:
    """Return the message of an error: a field of its JSON, or its first words."""
    try:
        error = response.json()
    except ValueError:
        return response.data[:LONGEST_REASON].decode(errors="replace")
    # The message may be nested, as in {"error": {"message": ...}}.
    for name in ("error", "message", "detail"):
        if isinstance(error, dict):
            error = error.get(name, error)
    return str(error)


def parse_address(text: str) -> tuple[str, str | None]:
    """Parse ``http://HOST/PATH#MODEL`` to a URL and a model; ``/v1`` stands for a missing path.

    Raises `InputError` for a URL that has no host, or has a part that may hold a secret, since an
    index records it.

    >>> parse_address("http://localhost:11434#all-minilm")
    ('http://localhost:11434/v1', 'all-minilm')
    """
    base, _, model = text.partition("#")
    parts = _parts(base)
    if parts.username is not None or parts.password is not None or parts.query:
        raise InputError(
            f"model {parts.scheme}://{parts.hostname}: a URL with a password or a query; expected "
            "http://HOST/PATH#NAME, and the key in a file (api_key_file) or the environment"
        )
    url = base.rstrip("/")
    return url if parts.path.strip("/") else f"{url}/v1", model or None


def key_for(url: str, file: str | Path | None = None) -> str | None:
    """Return the key to send to a server: that of a file, or the environment's, or None.

    ``OPENAI_API_KEY`` is sent only to the scheme, host and port of ``OPENAI_BASE_URL``, by default
    OpenAI's: the URL may come from an index that somebody else has made.

    Raises `InputError` if the file can't be read, or has no key in one line.
    """
    if file is None:
        key = os.environ.get(KEY_VARIABLE, "").strip()
        if not key or _origin(url) != _origin(os.environ.get(URL_VARIABLE) or OPENAI):
            return None
    else:
        try:
            key = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file}: {error}; expected a file with a key") from None
    if not re.fullmatch(r"[!-~]+", key):
        raise InputError(f"{file or KEY_VARIABLE}: expected one line with a key, in ASCII")
    return key


def _origin(url: str) -> tuple[str, str | None, int]:
    """Return scheme, host and port of a URL; the port defaults to the scheme's."""
    parts = _parts(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _parts(url: str) -> SplitResult:
    """Split a URL; raise `InputError` unless it is http or https, with a host."""
    try:
        parts = urlsplit(url)
        is_valid = parts.port != 0 and parts.hostname and re.fullmatch(r"[!-~]+", url)
    except ValueError:  # a port that is no number, brackets that do not close
        is_valid = False
    if not is_valid or parts.scheme not in ("http", "https"):
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
