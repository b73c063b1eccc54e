"""Addresses of servers, and the keys that may be sent to them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from slimdex.indexes.errors import InputError

LOCAL = "localhost"
KEY_VARIABLE, URL_VARIABLE = "OPENAI_API_KEY", "OPENAI_BASE_URL"
"""Environment of OpenAI's own clients, with the meaning that it has there."""
OPENAI = "https://api.openai.com/v1"


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


def is_address(model: str) -> bool:
    """Return whether a model's name is the URL of a server."""
    return model.startswith(("http://", "https://"))


def key_for(url: str, file: str | Path | None = None) -> str | None:
    """Return the key to send to a server: that of a file, or the environment's, or None.

    ``OPENAI_API_KEY`` is sent only to the scheme, host and port of ``OPENAI_BASE_URL``, by default
    OpenAI's: the URL may come from an index that somebody else has made.

    Raises `InputError` if the file can't be read, or has no key in one line.
    """
    if file is None:
        key = os.environ.get(KEY_VARIABLE, "").strip()
        ours = _origin(os.environ.get(URL_VARIABLE) or OPENAI) == _origin(url)
        return _checked(key, KEY_VARIABLE) if key and ours else None
    try:
        key = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise InputError(f"{file}: {reason}; expected a file with a key") from None
    return _checked(key, str(file))


def _checked(key: str, place: str) -> str:
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"{place}: expected one line with a key, in ASCII")
    return key


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = _parts(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        known = parts.port != 0 and parts.hostname and url.isascii() and url.isprintable()
    except ValueError:  # a port that is no number, brackets that do not close
        known = False
    if not known or parts.scheme not in ("http", "https") or " " in url:
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
