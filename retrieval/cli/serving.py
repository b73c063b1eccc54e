"""Serving commands: indexes over HTTP, and to agents, until Ctrl-C."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import console
from .options import Model, Wait

if TYPE_CHECKING:
    from ..commands import Command

Dirs = Annotated[
    list[str],
    typer.Argument(metavar="DIR...", help="Indexes; NAME=DIR for another name than the folder's."),
]


def serve(
    indexes: Dirs,
    host: Annotated[
        str, typer.Option(help="Where to listen; other machines need --token-file.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Lines of 'read TOKEN' or 'write TOKEN'; nobody else may read the file."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name that callers may use: give it again for more."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Pages of others that may call, or *."),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="That callers may sync with: give it again for more."),
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="PEM.")] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="PEM; default: in the certificate's.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Take tokens of other machines without TLS.")
    ] = False,
    wait: Wait = 0,
) -> None:
    """Serve indexes over HTTP: searches and changes, for programs, people and agents."""
    from ..collection.collection import Collection
    from ..server.hosts import Hosts
    from ..server.running import Listening, run
    from ..server.service import Service, named_places
    from ..server.tokens import Tokens

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    tokens = None if token_file is None else Tokens.read(token_file)
    hosts = Hosts([*(allow_host or []), host], cors or [])
    listening = Listening(host, port, tokens, hosts, tls_certificate, tls_key, insecure)
    places = named_places(indexes)
    service = Service.open(
        places, folders=files or [], open_one=partial(Collection.open, wait=wait)
    )
    console.note(f"{', '.join(places)}: Ctrl-C ends it")
    run(service, listening, lambda url: console.line(url))


def mcp(
    indexes: Dirs,
    http: Annotated[
        bool, typer.Option("--http", help="Streamable HTTP at /mcp, in place of stdin and stdout.")
    ] = False,
    port: Annotated[int, typer.Option(help="With --http; 0 takes a free one.")] = 8001,
    model: Model = None,
    wait: Wait = 30,
) -> None:
    """Give agents the tools search, fetch and info, by the Model Context Protocol.

    An index is open no longer than a call takes, so that others may write; or the service that
    holds it is asked.
    """
    import anyio

    from ..commands import Info
    from ..server.agents import agents_server
    from ..server.service import named_places
    from .performing import Index

    places = named_places(indexes)
    opened = {name: Index(place, wait, model=model) for name, place in places.items()}
    for at in opened.values():
        at.do(Info())  # what is wrong should be said now, not to the agent

    async def do(name: str, command: Command) -> dict[str, Any]:
        return await anyio.to_thread.run_sync(opened[name].do, command)

    server = agents_server([*places], do)
    if http:
        server.run("streamable-http", port=port)
    else:
        server.run()
