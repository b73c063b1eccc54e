"""`slimdex export`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ... import console
from ...execution import Index
from ...options.opening import Dir, Json, OpenOptions, Where

if TYPE_CHECKING:
    from slimdex.retrieval.exporting.export import Exported


def export(
    index: Dir,
    *,
    to: Annotated[
        str,
        "FORMAT",
        "parquet, jsonl, csv, npz or faiss: documents with their vectors; "
        "sentence-transformers or onnx: the encoder with the reducer.",
    ],
    out: Annotated[Path, "A new file or folder."],
    vectors: Annotated[
        str | None,
        "full|reduced",
        "The encoder's, as for `build --vectors`, the default for files; or those that the "
        "codes are made of, the default for folders.",
    ] = None,
    where: Where = None,
    opening: OpenOptions,
    as_json: Json = False,
) -> None:
    """Write documents and vectors, or the encoder with the reducer, for other programs."""
    from slimdex.retrieval.exporting.export import export as write

    with Index(index, opening).opened() as collection:
        with console.progress():
            done = write(collection, out, to, vectors=vectors, where=where)
        for text in done.notes:
            console.note(text)
        if as_json:
            console.print_json(asdict(done))
        else:
            console.line(said(done))


def said(done: Exported) -> str:
    """Describe in one line what was written."""
    if done.rows is None:
        return f"a model of {done.vectors} vectors of {done.dim} dimensions in {done.path}"
    rows = f"{done.documents:,} documents"
    if done.rows != done.documents:
        rows += f" ({done.rows:,} passages)"
    return f"{rows} with {done.vectors} vectors of {done.dim} dimensions in {done.path}"
