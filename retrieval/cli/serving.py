"""Serving: indexes over HTTP, until Ctrl-C."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from . import console
from .options import Wait

MODULES = ("fastapi", "uvicorn", "prometheus_client")
"""Of the extra serve."""


def serve(
    indexes: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR...", help="Indexes; NAME=DIR for another name than the folder's."
        ),
    ],
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
    wait: Wait = 0,
) -> None:
    """Serve indexes over HTTP: searches and changes, for programs, people and agents."""
    from ..server.hosts import Hosts
    from ..server.running import Listening, run
    from ..server.service import Service, named_places
    from ..server.tokens import Tokens

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    tokens = None if token_file is None else Tokens.read(token_file)
    hosts = Hosts([*(allow_host or []), host], cors or [])
    listening = Listening(host, port, tokens, hosts, tls_certificate, tls_key)
    places = named_places(indexes)
    service = Service.open(places, folders=files or [], wait=wait)
    console.note(f"{', '.join(places)}: Ctrl-C ends it")
    run(service, listening, lambda url: console.line(url))
