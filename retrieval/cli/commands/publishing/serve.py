"""`slimdex serve`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ... import console
from ...options.opening import Dirs, Wait

if TYPE_CHECKING:
    from ....server.running import Listening


@dataclass(frozen=True)
class ListenOptions:
    """Address, tokens and limits of a service."""

    host: Annotated[
        str, "Address to listen on; one that other machines reach needs --token-file."
    ] = "127.0.0.1"
    port: Annotated[int, "Port; 0 takes a free one."] = 8000
    token_file: Annotated[
        Path | None, "A file with lines 'read TOKEN' or 'write TOKEN', which only you can read."
    ] = None
    allow_host: Annotated[
        list[str] | None, "NAME", "A host name that callers may use; can be repeated."
    ] = None
    cors: Annotated[
        list[str] | None, "ORIGIN", "An origin whose pages may call, or *; can be repeated."
    ] = None
    tls_certificate: Annotated[Path | None, "Certificate, a PEM file."] = None
    tls_key: Annotated[Path | None, "Its key, a PEM file; default: in the certificate's file."] = (
        None
    )
    insecure: Annotated[bool, "Take tokens of other machines without TLS."] = False

    def checked(self) -> Listening:
        """Read the tokens, and check the other options against them."""
        from ....server.access.hosts import Hosts
        from ....server.access.tokens import Tokens
        from ....server.running import Listening

        tokens = None if self.token_file is None else Tokens.read(self.token_file)
        hosts = Hosts([*(self.allow_host or []), self.host], self.cors or [])
        tls = (self.tls_certificate, self.tls_key)
        return Listening(self.host, self.port, tokens, hosts, *tls, self.insecure)


def serve(
    indexes: Dirs,
    listen: ListenOptions,
    files: Annotated[
        list[Path] | None, "FOLDER", "A folder that callers may sync from; can be repeated."
    ] = None,
    wait: Wait = 0,
) -> None:
    """Serve indexes over HTTP: searches and changes, for programs, people and agents."""
    import logging

    from ....collection import Collection
    from ....server.running import run
    from ....server.service import Service, named_places

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    listening = listen.checked()
    places = named_places(indexes)
    service = Service.open(
        places, folders=files or [], open_one=partial(Collection.open, wait=wait)
    )
    console.note(f"{', '.join(places)}: Ctrl-C ends it")
    run(service, listening, lambda url: console.line(url))
