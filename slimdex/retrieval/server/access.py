"""Access: the address that a service listens on, and who may call it."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from hmac import compare_digest
from pathlib import Path

from slimdex.errors import InputError

from ..encoders.over_http.connection import is_loopback

SHORTEST = 16
"""Fewest characters of a token, so that it can't be guessed."""
TOKEN_LINES = f"lines of 'read TOKEN' or 'write TOKEN', each token of {SHORTEST} characters or more"
_TOKEN_LINE = re.compile(rf"(read|write)\s+([!-~]{{{SHORTEST},}})")
_ORIGIN = re.compile(r"[^:/\s]+://[^/\s]+|\*")
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
            raise InputError(f"{path}: others can read it; expected mode 600: chmod 600 {path}")
        rights = dict[bytes, Right]()
        for number, line in enumerate(lines, start=1):
            words = line.split("#")[0].strip()
            match = _TOKEN_LINE.fullmatch(words)
            if words and match is None:
                raise InputError(f"{path}, line {number}: expected {TOKEN_LINES}")
            if match:
                rights[match[2].encode()] = Right[match[1].upper()]
        if not rights:
            raise InputError(f"{path}: no tokens; expected {TOKEN_LINES}")
        return cls(rights)

    def right_of(self, authorization: str) -> Right:
        """Return the rights granted by a header ``Authorization: Bearer TOKEN``."""
        scheme, _, rest = authorization.partition(" ")
        sent = rest.strip().encode()
        granted = Right.NOTHING
        # Compare with every token in constant time, so that the time reveals none.
        for token, right in self.rights.items():
            if compare_digest(token, sent):
                granted = right
        return granted if scheme.lower() == "bearer" else Right.NOTHING


@dataclass(frozen=True)
class Listening:
    """Address of a service, and its protection."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0 chooses a free one
    tokens: Tokens | None = None
    pages: Sequence[str] = ()  # origins of other sites that may call it; "*" for any
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
        for page in self.pages:
            if not _ORIGIN.fullmatch(page):
                raise InputError(
                    f"--cors {page!r}; expected an origin such as https://example.org, or *"
                )

    def listen(self) -> socket.socket:
        """Open a listening socket; raises `InputError` if that fails."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listener = socket.create_server((self.host, self.port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise InputError(
                f"{self.host}, port {self.port}: {error}; expected an address of this machine and "
                "a free port"
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
