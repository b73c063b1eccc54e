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
    typer.Argument(
        metavar="DIR", help="Folders of indexes; NAME=DIR serves one under another name."
    ),
]


def serve(
    indexes: Dirs,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; one that other machines reach needs --token-file."
        ),
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="A file with lines 'read TOKEN' or 'write TOKEN', which only you can read."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name that callers may use; can be repeated."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="An origin whose pages may call, or *; can be repeated."
        ),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="A folder that callers may sync from; can be repeated."
        ),
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="Certificate, a PEM file.")] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="Its key, a PEM file; default: in the certificate's file.")
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
        bool,
        typer.Option("--http", help="Serve streamable HTTP at /mcp in place of stdin and stdout."),
    ] = False,
    port: Annotated[int, typer.Option(help="With --http: the port; 0 takes a free one.")] = 8001,
    model: Model = None,
    wait: Wait = 30,
) -> None:
    """Give agents the tools search, fetch and info, over the Model Context Protocol.

    An index is open only during a call, so that other processes can write to it. If a service holds
    it, the service is asked.
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
