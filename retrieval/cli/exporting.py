"""Exporting command: an index in formats that others read; a command of `app`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Dir, Json, Model, Trust, Wait, Where

if TYPE_CHECKING:
    from ..exporting.export import Exported

TO = (
    "parquet, jsonl, csv, npz or faiss: documents with their vectors; sentence-transformers or "
    "onnx: the encoder with the reducer."
)


def export(
    index: Dir,
    to: Annotated[str, typer.Option(metavar="FORMAT", help=TO)],
    out: Annotated[Path, typer.Option(help="A new file or folder.")],
    vectors: Annotated[
        str | None,
        typer.Option(
            metavar="full|reduced",
            help="The encoder's own, as `build --vectors` takes them, which files have by default; "
            "or as the codes see them, which folders have.",
        ),
    ] = None,
    where: Where = None,
    model: Model = None,
    trust_remote_code: Trust = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Write documents and vectors, or the encoder with the reducer, for other programs."""
    from ..collection.collection import Collection
    from ..exporting.export import export as write
    from . import console

    opened = Collection.open(
        index, read_only=True, model=model, trust_remote_code=trust_remote_code, wait=wait
    )
    with opened as collection:
        with console.progress():
            done = write(collection, out, to, vectors=vectors, where=where)
        for text in done.notes:
            console.note(text)
        if as_json:
            console.print_json(asdict(done))
        else:
            console.line(said(done))


def said(done: Exported) -> str:
    """What was written, in one line."""
    if done.rows is None:
        return f"a model of {done.vectors} vectors of {done.dim} dimensions in {done.path}"
    rows = f"{done.documents:,} documents"
    if done.rows != done.documents:
        rows += f" ({done.rows:,} passages)"
    return f"{rows} with {done.vectors} vectors of {done.dim} dimensions in {done.path}"
