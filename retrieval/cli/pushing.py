"""Pushing commands: an index goes into Milvus, and is compared with what is there."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from . import console
from .errors import BAD_INPUT, say
from .options import Dir, Json, Wait

Milvus = Annotated[
    str,
    typer.Option(
        "--milvus",
        metavar="URI",
        help="http://HOST:19530 of a server, or a file NAME.db for the embedded server.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option(help="Name of the index in Milvus; default: its folder's, with underscores."),
]
Token = Annotated[
    str,
    typer.Option(
        envvar="MILVUS_TOKEN", help="Credentials for the server: USER:PASSWORD, or an API key."
    ),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Send the token to another machine without TLS.")
]


def push(
    index: Dir,
    milvus: Milvus,
    name: Name = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Milvus' index kind: FLAT, IVF_SQ8, IVF_PQ, HNSW or another that its version has; "
            "default: that of the last push, or IVF_SQ8."
        ),
    ] = None,
    rescore: Annotated[
        str,
        typer.Option(
            metavar="here|there|off",
            help="Where candidates are rescored with full vectors: here, from this folder; there, "
            "in Milvus, which then stores them, too; or off.",
        ),
    ] = "here",
    leave_out: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column not to push; can be repeated."),
    ] = None,
    token: Token = "",
    insecure: Insecure = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Bring Milvus up to date with an index: send what is new or changed, remove what is gone."""
    from ..cluster.milvus_push import PushOptions
    from ..cluster.milvus_push import push as push_rows
    from ..cluster.milvus_server import Server
    from ..collection.open_index import OpenIndex

    with (
        closing(OpenIndex.open(index, read_only=True, wait=wait)) as core,
        Server(milvus, token, insecure=insecure) as server,
        console.progress(),
    ):
        options = PushOptions(kind, rescore, leave_out or ())
        done = push_rows(core, server, name, options)
    if as_json:
        console.print_json(asdict(done))
        return
    console.line(
        f"{done.sent:,} sent, {done.removed:,} removed, {done.rows:,} in {done.collection}"
    )


def verify_pushed(
    index: Path, milvus: str, name: str | None, token: str, insecure: bool, as_json: bool
) -> None:
    """Say in what Milvus differs from an index; exit code 2 if it does."""
    from ..cluster.milvus_verification import pushed_faults

    with console.progress():
        faults = pushed_faults(index, milvus, name, token, insecure=insecure)
    if as_json:
        console.print_json({"faults": faults})
    elif not faults:
        console.line(f"{milvus}: has what {index} has")
    for fault in [] if as_json else faults:
        say(fault)
    if faults:
        raise typer.Exit(BAD_INPUT)
