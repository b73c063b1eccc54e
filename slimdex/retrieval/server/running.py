"""Running: sockets, certificates, and one process that serves until stopped.

One process per index answers all callers. OpenVINO, FAISS and DuckDB use threads on all cores, and
concurrent queries form one batch: several processes would each hold the model and the codes in
memory, and split the batches.
"""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from slimdex.indexes.errors import InputError

from ..encoders.over_http.connection import is_loopback
from .access.hosts import Hosts
from .access.middleware import guarded
from .access.tokens import Tokens
from .app import application
from .service import Service

BACKLOG = 2048
CONNECTIONS = 4096
"""Open connections; further ones are answered with 503 and closed."""
GRACE_S = 3600
"""Seconds for running requests after a signal to stop; a second Ctrl-C ends them at once."""


@dataclass(frozen=True)
class Listening:
    """Address of a service, and its protection.

    Attributes
    ----------
    port : 0 chooses a free one.
    certificate, key : files of TLS, in PEM.
    insecure : bool
        Accept tokens from other machines without TLS.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    tokens: Tokens | None = None
    hosts: Hosts = field(default_factory=Hosts)
    certificate: Path | None = None
    key: Path | None = None
    insecure: bool = False

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
        try:
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
            found = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        except OSError as error:
            raise InputError(
                f"{self.host}, port {self.port}: {error.strerror or error}; expected an address of "
                "this machine and a free port"
            ) from error
        # Connections inherit this option. asyncio sets it only for a socket that states its
        # protocol, unlike this one. Without it, each answer waits 40 ms for an acknowledgement.
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def url(self, listening: socket.socket) -> str:
        """URL of the service."""
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{listening.getsockname()[1]}"


def run(
    service: Service,
    listening: Listening,
    started: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGINT or SIGTERM, then finish running requests and close the indexes.

    `started` is called with the URL once requests are accepted.
    """
    tcp = listening.listen()
    app = application(service, lambda: started(listening.url(tcp)))
    config = uvicorn.Config(
        guarded(app, listening.hosts, listening.tokens, service.limits, service.metrics),
        log_level="warning",
        access_log=False,
        server_header=False,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
        lifespan="on",
    )
    # uvicorn raises the signal that ended it again: SIGTERM would kill this process then.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run([tcp])
