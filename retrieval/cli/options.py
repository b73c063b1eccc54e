"""Options that several commands of the command line share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slimdex.indexes import choices, kinds

if TYPE_CHECKING:
    from slimdex.indexes.workers import Workers

DEFAULTS = choices.Choices()
KINDS = (
    f"{', '.join(kinds.KINDS)} or any FAISS factory string; auto: pq, and ivf-pq from "
    f"{kinds.LISTS_FROM:,} documents on."
)
POOLINGS = (
    "cls, mean, max, last, pooler or wk, @ layers: mean@1,-1; default: the model's own, or "
    "mean@-1. Of word vectors: mean or sif."
)
REDUCERS = f"{', '.join(choices.REDUCERS[:-1])} or {choices.REDUCERS[-1]}"
SOURCES = (
    "Folders, and files: Markdown, rst, HTML, PDF, DOCX, ODT, EPUB, notebooks, mail, code; tables "
    "(.jsonl .json .csv .tsv .parquet .xlsx .sqlite .duckdb, FILE#TABLE; .txt with a document a "
    "line); also .gz and .zst. BEIR folders, - for standard input, python: for the standard "
    "library's docstrings, python:PACKAGE for a package's."
)

Dir = Annotated[Path, typer.Argument(metavar="DIR", help="The index's folder.")]
SourcesOrSql = Annotated[
    list[str] | None, typer.Argument(metavar="SOURCE...", help=f"{SOURCES} Or --sql.")
]
Sql = Annotated[
    list[str] | None,
    typer.Option("--sql", help="A query whose answer is a source: SELECT * FROM 'a/*.parquet'."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def _warned(trusted: bool) -> bool:
    """Say what it means that a model's code is trusted."""
    if trusted:
        from . import console

        console.note("code that comes with the model is run, with your rights")
    return trusted


Trust = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        help="Run Python code that comes with the model.",
        callback=_warned,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="Where the encoder's model is now, if it has moved: a folder, a file or a hub id."
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        help="How long to wait for other processes that write to the index, or that read it while "
        "this command is to change it.",
    ),
]
Vectors = Annotated[
    str | None,
    typer.Option(
        help="Vectors made elsewhere: a .npy or .npz file, or a column of Parquet sources."
    ),
]
Text = Annotated[str | None, typer.Option("--text", help="Column with the text.")]
Types = Annotated[
    list[str] | None,
    typer.Option(
        help="Types of columns, as zip=VARCHAR,day=DATE: any of DuckDB's; all=VARCHAR for all."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Of text files: latin-1, cp1252, utf-16, ...; default: UTF-8."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="jsonl, json, csv, tsv, parquet or txt; default: the file's ending; standard input "
        "is jsonl if it begins with {, else a document a line.",
    ),
]
Id = Annotated[str | None, typer.Option("--id", help="Column with the id.")]
Title = Annotated[str | None, typer.Option("--title", help="Column with the title.")]
K = "Dimensions kept of each vector: fewer take less memory and find less."
BETA = "How much of what all vectors have in common, their mean, to take away: 0 none, 1 all of it."
GAMMA = (
    "How far to even out the directions in which vectors differ much and little: 0 keeps the "
    "model's own order, 1 evens them out wholly."
)
CANDIDATES = (
    "How many of the nearest by their codes are compared again with their full vectors, read from "
    "disk: more find better and take longer; 0: none, and no vector is read; auto: "
    f"{choices.CANDIDATES}, and more from {choices.CANDIDATES_TO:,} documents on."
)
STORED = (
    "How the full vectors are kept on disk: fp16, or int8 in half the bytes, which finds as much; "
    "with --gamma near 1 it finds others."
)
PASSAGES = (
    "Longer texts are cut into passages of so many tokens, each with a vector; default: what the "
    "encoder reads, if it reads no more; off: what goes beyond that is not found."
)
HYBRID = (
    "Count the query's words, too: by ranks, by a weight from 0 to 1, or as `tune` found to help."
)
PER = (
    "document, each with its nearest passage; or passage, several of which may be of one document."
)
FOR_THIS_SEARCH = (
    "How many are compared again with their full vectors, for this search alone, in place of the "
    "index's own number; 0: none."
)
Where = Annotated[str | None, typer.Option(help="A DuckDB condition on the documents' columns.")]
RAY = (
    "Encode and code on a Ray cluster: local, for this machine's processors; or the address of one "
    "that runs, whose machines need slimdex, and the model where it is here."
)
Ray = Annotated[str | None, typer.Option("--ray", metavar="ADDRESS|local", help=RAY)]
RayWorkers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="Of --ray, with a processor each; default: as many as there are.",
    ),
]
Agreement = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Agreement with exact search: the share of its ten nearest, in the index's own "
        "metric, that a search is to find; proved with 95% confidence.",
    ),
]
Ram = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Most that the index takes in memory: 200MB.")
]
Disk = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Most that its folder takes on disk: 1.5GiB.")
]
P99 = Annotated[
    float | None,
    typer.Option(
        "--p99-ms",
        metavar="MS",
        help="Most that 99 of 100 searches take, from a vector to rows, on this machine.",
    ),
]
Refit = Annotated[
    str,
    typer.Option(
        "--refit",
        metavar="auto|never|always",
        help="When documents have come that the index was not fitted on: fit it anew if it finds "
        "less and that takes less than the addition did, else advise it; never; or always.",
    ),
]


def candidates_asked(text: str) -> int | None:
    """What `--candidates` says; None for auto.

    >>> candidates_asked("auto"), candidates_asked("400")
    (None, 400)
    """
    from slimdex.indexes.errors import InputError

    if text == choices.AUTO:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"candidates={text!r}; expected auto or a whole number") from error


def passages_asked(said: str) -> int | str:
    """What `--passages` says: auto, off, or a number.

    >>> passages_asked("256"), passages_asked("off")
    (256, 'off')
    """
    return int(said) if said.isdecimal() else said


@contextmanager
def workers_asked(ray: str | None, count: int | None) -> Iterator[Workers]:
    """What `--ray` and `--workers` say: who computes while the statement lasts.

    >>> with workers_asked(None, None) as workers:
    ...     list(workers.map(abs, [-1]))
    [(-1, 1)]
    """
    from slimdex.indexes.errors import InputError
    from slimdex.indexes.workers import HERE

    if ray is None:
        if count is not None:
            raise InputError(f"--workers {count} without --ray; expected --ray local or an address")
        yield HERE
        return
    from ..cluster.ray_workers import RayWorkers as Cluster

    with Cluster(ray, count) as workers:
        yield workers
