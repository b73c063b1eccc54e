"""Give an index to other programs: `slimdex export` and `push`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from . import console
from .click_commands import Answer
from .options import Dir, OpenOptions, Where, open_index

if TYPE_CHECKING:
    from ..exporting.export import ExportReport


def export(
    index: Dir,
    *,
    to: Annotated[
        str,
        "FORMAT",
        "parquet, jsonl, csv or faiss: documents with their vectors; "
        "sentence-transformers: the encoder with the reducer.",
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
) -> Answer:
    """Write documents and vectors, or the encoder with the reducer, for other programs."""
    # Loads numpy, FAISS and the formats.
    from ..exporting.export import export_index

    opened = open_index(index, opening)
    with console.progress():
        done = export_index(opened, out, to, vectors=vectors, where=where)
    for text in done.notes:
        console.note(text)
    return Answer(asdict(done), _describe(done))


def _describe(done: ExportReport) -> str:
    """Describe in one line what was written."""
    if done.rows is None:
        return f"a model of {done.vectors} vectors of {done.dim} dimensions in {done.path}"
    rows = f"{done.documents:,} documents"
    if done.rows != done.documents:
        rows += f" ({done.rows:,} passages)"
    return f"{rows} with {done.vectors} vectors of {done.dim} dimensions in {done.path}"


def push(
    index: Dir,
    *,
    milvus: Annotated[
        str, "URI", "http://HOST:19530 of a server, or a file NAME.db for the embedded server."
    ],
    name: Annotated[
        str | None, "Name of the index in Milvus; default: its folder's, with underscores."
    ] = None,
    leave_out: Annotated[
        list[str] | None, "COLUMN", "A column not to push; can be repeated."
    ] = None,
    token: Annotated[
        str,
        {"envvar": "MILVUS_TOKEN"},
        "Credentials for the server: USER:PASSWORD, or an API key.",
    ] = "",
    insecure: Annotated[bool, "Send the token to another machine without TLS."] = False,
) -> Answer:
    """Bring Milvus up to date with an index: send what is new or changed, remove what is gone."""
    # Loads numpy and FAISS; connecting loads Milvus's client, of the extra `cluster`.
    from ..cluster.milvus_push import push as push_rows
    from ..cluster.milvus_server import Server

    opened = open_index(index)
    with Server(milvus, token, insecure=insecure) as connected, console.progress():
        done = push_rows(opened, connected, name, leave_out or ())
    text = f"{done.sent:,} sent, {done.removed:,} removed, {done.rows:,} in {done.collection}"
    return Answer(asdict(done), text)
