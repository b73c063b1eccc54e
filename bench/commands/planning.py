"""`slimdex plan`: what an index will take, from the rows that were measured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from slimdex.indexes import choices
from slimdex.indexes.errors import InputError

from ..rows import FOLDER

DEFAULT_TOKENS = 100


def plan(
    documents: Annotated[
        float, typer.Option(help="How many, as 1e9; count passages if texts are cut into them.")
    ],
    dim: Annotated[int, typer.Option(help="Dimensions of the encoder's vectors.")] = 384,
    tokens: Annotated[
        float, typer.Option(help="Tokens to encode per document; 0: vectors are given.")
    ] = DEFAULT_TOKENS,
    text_bytes: Annotated[
        float | None, typer.Option(help="Of a document's text; default: 4 for each token.")
    ] = None,
    columns: Annotated[float, typer.Option(help="Bytes of a document's metadata.")] = 0,
    tokens_per_s: Annotated[
        float | None,
        typer.Option(
            help="That one machine encodes, as `slimdex bench encode` measures; default: encoding "
            "is not timed."
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
    cores: Annotated[
        int | None, typer.Option(help="Cores of one machine; default: this one's.")
    ] = None,
    machines: Annotated[
        int | None,
        typer.Option(help="Machines to divide the documents among; default: as many as it takes."),
    ] = None,
    build_hours: Annotated[
        float, typer.Option(help="Longest that a build may take on one machine.")
    ] = 8,
    results: Annotated[
        Path, typer.Option(help="Folder with measured rows of `slimdex bench`.", show_default=False)
    ] = FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Estimate what an index will take, on one machine or several: memory, disk, time."""
    from slimdex.retrieval.cli import console
    from slimdex.retrieval.cli.sizes import parsed_size

    from ..planning import telling
    from ..planning.estimates import Asked
    from ..planning.model import Model
    from ..planning.plan import as_dict
    from ..planning.plan import plan as made_for
    from ..planning.workload import BYTES_PER_TOKEN, Machine, Workload, check_range

    check_range("--documents", documents, 1000, 1e13)
    check_range("--columns", columns, 0, 1e9)
    text = BYTES_PER_TOKEN * tokens if text_bytes is None else text_bytes
    workload = Workload(round(documents), dim, k, kind, tokens, text + columns, stored)
    machine = Machine(
        _memory() if ram is None else parsed_size(ram, "--ram"),
        (os.cpu_count() or 1) if cores is None else cores,
    )
    asked = Asked(workload, machine, machines, build_hours, tokens_per_s)
    laws = Model.of(results)
    made = made_for(laws, asked)
    if as_json:
        console.print_json(as_dict(made) | {"timed_on": laws.timed_on})
        return
    console.line(telling.title(made))
    console.show_table(telling.heads(made), telling.lines(made))
    for line in telling.advice(made, laws.timed_on):
        console.line(line)


def _memory() -> int:
    """Bytes of this machine's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError) as error:
        raise InputError("--ram: this system does not tell its memory; expected a size") from error
