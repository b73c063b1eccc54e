"""`slimdex plan`: what an index will take."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from slimdex.indexes import choices
from slimdex.indexes.errors import InputError


def plan(
    documents: Annotated[
        float, typer.Option(help="How many, as 1e9; count passages if texts are cut into them.")
    ],
    dim: Annotated[int, typer.Option(help="Dimensions of the encoder's vectors.")] = 384,
    tokens: Annotated[float, typer.Option(help="Tokens of a document, of 4 bytes each.")] = 100,
    columns: Annotated[float, typer.Option(help="Bytes of a document's title and metadata.")] = 0,
    tokens_per_s: Annotated[
        float | None,
        typer.Option(
            help="Tokens that one machine encodes per second, as `slimdex bench encode` measures; "
            "default: encoding is not timed."
        ),
    ] = None,
    k: Annotated[int | None, typer.Option(help="Dimensions to keep; default: half.")] = None,
    kind: Annotated[
        str, typer.Option(help="How vectors are coded: pq, ivf-pq or auto.")
    ] = choices.AUTO,
    stored: Annotated[str, typer.Option(help="Full vectors on disk: fp16 or int8.")] = "fp16",
    ram: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory of one machine: 64GB; default: this one's."),
    ] = None,
    machines: Annotated[
        int | None,
        typer.Option(help="Machines to divide the documents among; default: as many as it takes."),
    ] = None,
    build_hours: Annotated[float, typer.Option(help="Longest that one machine may encode.")] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Estimate what an index will take, on one machine or several: memory, disk, encoding."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.cli.sizes import parsed_size

    from ..planning import telling
    from ..planning.plan import Plan
    from ..planning.workload import LEAST, MOST, Workload, check_range

    check_range("--documents", documents, LEAST, MOST)
    workload = Workload(round(documents), dim, tokens, columns, k, kind, stored)
    memory = _memory() if ram is None else parsed_size(ram, "--ram")
    made = Plan(workload, memory, machines, build_hours, tokens_per_s)
    if as_json:
        console.print_json(made.as_dict())
        return
    console.line(telling.title(made))
    console.show_table(telling.heads(made), telling.lines(made))
    for line in telling.advice(made):
        console.line(line)


def _memory() -> int:
    """Bytes of this machine's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError) as error:
        raise InputError("--ram: this system does not tell its memory; expected a size") from error
