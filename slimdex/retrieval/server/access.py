"""Access: the address that a service listens on, and who may call it.

A page of another site can make its own name resolve to this machine (DNS rebinding). Its browser
then treats this service as part of that site, but states that name in the Host header: only
requests to an address or to one of the service's names are legitimate.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from hmac import compare_digest
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from slimdex.errors import InputError

from ..encoders.over_http.connection import LOCAL, is_loopback

SHORTEST = 16
"""Fewest characters of a token, so that it can't be guessed."""
TOKEN_LINES = f"lines of 'read TOKEN' or 'write TOKEN', each token of {SHORTEST} characters or more"
_NAME = re.compile(r"[^:\[\]\s/@]+")
_ORIGIN = re.compile(r"[^:/\s]+://[^/\s]+")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]\s/@]+)(?::(\d{1,5}))?")
BACKLOG = 2048
"""Connections that wait to be accepted."""


class Right(IntEnum):
    """Rights of a caller; each includes those before it."""

    NOTHING = 0
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Tokens:
    """Tokens and their rights."""

    rights: Mapping[bytes, Right]

    @classmethod
    def read(cls, path: Path) -> Tokens:
        """Read a file with lines "read TOKEN" or "write TOKEN"; # begins a comment.

        Raises `InputError`, without a token in its message, if the file can't be read, if others
        than its owner can read it, or if a line is invalid.
        """
        try:
            mode = path.stat().st_mode
            lines = path.read_text().splitlines()
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: can't be read ({error}); expected {TOKEN_LINES}") from error
        if mode & 0o077:  # any permission of the group or of others
            raise InputError(
                f"{path}: others can read it (mode {mode & 0o777:o}); expected mode 600: "
                f"chmod 600 {path}"
            )
        rights = dict[bytes, Right]()
        for number, line in enumerate(lines, start=1):
            words = line.split("#")[0].split()
            if words:
                token = _token(path, number, words)
                rights[token] = Right[words[0].upper()]
        if not rights:
            raise InputError(f"{path}: no tokens; expected {TOKEN_LINES}")
        return cls(rights)

    def right_of(self, authorization: bytes) -> Right:
        """Return the rights granted by a header ``Authorization: Bearer TOKEN``.

        Tokens are compared in constant time.
        """
        scheme, _, rest = authorization.partition(b" ")
        caller_token = rest.strip()
        granted = Right.NOTHING
        # Compare with every token, so that the time does not reveal which one matched.
        for token, right in self.rights.items():
            if compare_digest(token, caller_token):
                granted = right
        return granted if scheme.lower() == b"bearer" else Right.NOTHING


def _token(path: Path, number: int, words: Sequence[str]) -> bytes:
    """Return the token of a line's words; raises `InputError` if the line is invalid."""
    is_pair = len(words) == 2 and words[0] in ("read", "write")
    if not is_pair or len(words[1]) < SHORTEST or not words[1].isascii():
        raise InputError(f"{path}, line {number}: expected {TOKEN_LINES}")
    return words[1].encode()


@dataclass(frozen=True)
class Hosts:
    """Known names and pages."""

    names: Sequence[str] = ()  # of the service, besides addresses and localhost
    pages: Sequence[str] = ()  # origins of other sites that may call it; "*" for any

    def __post_init__(self) -> None:
        for name in self.names:
            if not _NAME.fullmatch(name) and not _is_address(name):
                raise InputError(
                    f"host {name!r}; expected a name such as search.example.org, without a port"
                )
        for page in self.pages:
            if page != "*" and not _ORIGIN.fullmatch(page):
                raise InputError(
                    f"page {page!r}; expected an origin such as https://example.org, or *"
                )

    def knows(self, host: str) -> bool:
        """True if a Host header refers to this service.

        >>> hosts = Hosts(["search.example.org"])
        >>> names = ("127.0.0.1:8000", "[::1]:8000", "LOCALHOST", "search.example.org", "evil.org")
        >>> [hosts.knows(host) for host in names]
        [True, True, True, True, False]
        """
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1].strip("[]").lower()
        # Only a name, not an address, can be made to resolve to this machine (DNS rebinding).
        return _is_address(name) or name in [LOCAL, *map(str.lower, self.names)]

    def allows(self, origin: str, host: str) -> bool:
        """True if pages of an origin may call: the service's own pages, or configured ones.

        >>> hosts = Hosts(pages=["https://example.org"])
        >>> origins = ("http://localhost:8000", "https://example.org", "http://evil.org", "null")
        >>> [hosts.allows(origin, "localhost:8000") for origin in origins]
        [True, True, False, False]
        """
        try:
            parts = urlsplit(origin)
        except ValueError:  # e.g. "http://["
            return False
        is_web = parts.scheme in ("http", "https")
        if is_web and parts.netloc.lower() == host.lower():
            return True
        return "*" in self.pages or origin in self.pages


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Listening:
    """Address of a service, and its protection."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0 chooses a free one
    tokens: Tokens | None = None
    hosts: Hosts = field(default_factory=Hosts)
    certificate: Path | None = None  # of TLS, in PEM
    key: Path | None = None
    insecure: bool = False  # accept tokens from other machines without TLS

    def __post_init__(self) -> None:
        if self.tokens is None and not is_loopback(self.host):
            raise InputError(
                f"--host {self.host}: other machines could read and write; expected --token-file, "
                "or a local host such as 127.0.0.1"
            )
        if self.certificate is None and not self.insecure and not is_loopback(self.host):
            raise InputError(
                f"--host {self.host}: tokens from other machines would be unencrypted; expected "
                "--tls-certificate, or --insecure behind a proxy that encrypts"
            )
        if not 0 <= self.port <= 65535:
            raise InputError(f"--port {self.port}; expected 0 to 65535")
        if self.key is not None and self.certificate is None:
            raise InputError("--tls-key without --tls-certificate; expected both")
        if self.certificate is not None:
            self._check_certificate(self.certificate)

    def _check_certificate(self, certificate: Path) -> None:
        """Raise `InputError` unless the certificate and its key can be loaded."""
        try:
            # An encrypted key is refused: without `password`, OpenSSL would ask for one.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                certificate, self.key, password=lambda: b""
            )
        except (OSError, ValueError) as error:
            raise InputError(
                f"{certificate}: no certificate with its key ({error}); expected PEM files"
            ) from error

    def listen(self) -> socket.socket:
        """Open a listening socket; raises `InputError` if that fails."""
        try:
            family, *_, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            # An IPv6 address has more parts than the host and port.
            listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        except OSError as error:
            raise InputError(
                f"{self.host}, port {self.port}: {error.strerror or error}; expected an address of "
                "this machine and a free port"
            ) from error
        # Connections inherit this option. asyncio sets it only for a socket that states its
        # protocol, unlike this one. Without it, each answer waits 40 ms for an acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener

    def url(self, listening: socket.socket) -> str:
        """Return the URL of the service, with the port of `listening`."""
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{listening.getsockname()[1]}"
