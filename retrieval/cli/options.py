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
    f"How reduced vectors are coded in memory: {', '.join(kinds.KINDS)} or any FAISS factory "
    f"string; auto: pq, or ivf-pq from {kinds.LISTS_FROM:,} documents."
)
POOLINGS = (
    "How token vectors are pooled: cls, mean, max, last, pooler or wk, and @ with the layers "
    "to average: mean@1,-1; default: the model's own, or mean@-1. For word vectors: mean or sif."
)
REDUCERS = (
    f"How dimensions are reduced: {', '.join(choices.REDUCERS[:-1])} or {choices.REDUCERS[-1]}."
)
SOURCES = (
    "Folders and files: Markdown, rst, HTML, PDF, DOCX, ODT, EPUB, notebooks, mail, code; tables "
    "(.jsonl .json .csv .tsv .parquet .xlsx .sqlite .duckdb; FILE#TABLE for one of several); .txt "
    "with one document per line; also .gz and .zst. BEIR folders, - for standard input, python: "
    "for the standard library's docstrings, python:PACKAGE for a package's."
)

Dir = Annotated[Path, typer.Argument(metavar="DIR", help="The index's folder.")]
SourcesOrSql = Annotated[
    list[str] | None, typer.Argument(metavar="SOURCE", help=f"{SOURCES} Or use --sql.")
]
Sql = Annotated[
    list[str] | None,
    typer.Option(
        "--sql", help="A DuckDB query whose result is a source: SELECT * FROM 'a/*.parquet'."
    ),
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
        help="Run Python code that comes with the model; only for authors you trust.",
        callback=_warned,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="The new place of the encoder's model, if it has moved: a folder, a file or a hub id."
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        help="How long to wait for other processes that are using the index.",
    ),
]
Vectors = Annotated[
    str | None,
    typer.Option(
        help="Precomputed vectors: a .npy or .npz file, or a column of Parquet, JSONL or CSV."
    ),
]
Text = Annotated[
    str | None,
    typer.Option("--text", help="Column with the text; default: text, body, content, ..."),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        help="DuckDB types of columns: zip=VARCHAR,day=DATE; all=VARCHAR keeps every one as text."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of text files: latin-1, cp1252, utf-16, ...; default: UTF-8."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="jsonl, json, csv, tsv, parquet or txt; default: by the file's extension; standard "
        "input is jsonl if it starts with {, otherwise one document per line.",
    ),
]
Id = Annotated[str | None, typer.Option("--id", help="Column with the id; default: id, _id, ...")]
Title = Annotated[
    str | None, typer.Option("--title", help="Column with the title; default: title.")
]
K = "Dimensions to keep of each vector: fewer take less memory and are less accurate."
BETA = "How much of the vectors' mean to subtract: 0 none, 1 all of it."
GAMMA = (
    "How far to equalize the variances of the vectors' principal directions (whitening): 0 not at "
    "all, which keeps the model's own ranking, 1 fully."
)
CANDIDATES = (
    "How many of the nearest by their codes to rescore with their full vectors, read from disk: "
    "more is more accurate and slower; 0: none, and no vector is read; auto: "
    f"{choices.CANDIDATES}, or more from {choices.CANDIDATES_TO:,} documents."
)
STORED = (
    "How full vectors are stored on disk: fp16, or int8 in half the bytes, which finds as much "
    "unless --gamma is near 1."
)
PASSAGES = (
    "Cut longer texts into passages of this many tokens, each with a vector; default: as many as "
    "the encoder reads, if it has a limit; off: only the beginning of a longer text is found."
)
HYBRID = (
    "Combine with lexical search (`slimdex words`): rrf, by ranks; by a lexical weight from 0 to "
    "1; or auto, as `tune` chose."
)
PER = (
    "What a hit is: a document with its nearest passage, or a passage; one document may then have "
    "several hits."
)
FOR_THIS_SEARCH = (
    "How many candidates to rescore with their full vectors in this search, in place of the "
    "index's own number; 0: none."
)
Where = Annotated[
    str | None, typer.Option(help="A DuckDB condition on the documents' columns: year > 2000.")
]
RAY = (
    "Build on a Ray cluster: local, for one on this machine; or the address of a running one, "
    "whose machines need slimdex, and the model at the same path as here."
)
Ray = Annotated[str | None, typer.Option("--ray", metavar="ADDRESS|local", help=RAY)]
RayWorkers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="Workers for --ray, with a CPU each; default: as many as the cluster has.",
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
    str | None, typer.Option(metavar="SIZE", help="Most memory that the index may take: 200MB.")
]
Disk = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Most space that its folder may take on disk: 1.5GiB."),
]
P99 = Annotated[
    float | None,
    typer.Option(
        "--p99-ms",
        metavar="MS",
        help="Longest that 99 of 100 searches may take on this machine, from a vector to rows.",
    ),
]
Refit = Annotated[
    str,
    typer.Option(
        "--refit",
        metavar="auto|never|always",
        help="Whether to fit the index again to new documents: auto, if it finds less than before "
        "and a fit takes less time than the addition did (else a note advises it); never; always.",
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
