"""Give an index to other programs: `slimdex export` and `push`."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from slimdex.errors import counted

from . import console
from .click_commands import Answer
from .options import Dir, Where, open_index

if TYPE_CHECKING:
    from ..exporting.export import ExportReport

COPY = "slimdex"
"""Format of an index itself."""


def export(
    index: Dir,
    *,
    to: Annotated[
        str,
        "FORMAT",
        "parquet, jsonl, csv or faiss: documents with their vectors; "
        "sentence-transformers: the encoder with the reducer; "
        "slimdex: a verified copy, even while others change the index.",
    ],
    out: Annotated[Path, "A new file or folder."],
    vectors: Annotated[
        str | None,
        "full|reduced",
        "The encoder's, as for `build --vectors`, the default for files; or those that the "
        "codes are made of, the default for folders.",
    ] = None,
    where: Where = None,
) -> Answer:
    """Write documents and vectors, the encoder with the reducer, or a copy as a backup."""
    # Loads numpy, FAISS and the formats.
    from ..exporting.export import export_index
    from ..store.verification import copy_index

    opened = open_index(index)
    if to == COPY:
        with console.progress():
            version = copy_index(opened.path, out.absolute()).state.version
        text = f"{out}: {index} at version {version}, verified"
        return Answer({"path": str(out), "version": version}, text)
    with console.progress():
        done = export_index(opened, out, to, vectors=vectors, where=where)
    for text in done.notes:
        console.note(text)
    return Answer(asdict(done), _describe(done))


def _describe(done: ExportReport) -> str:
    """Describe in one line what was written."""
    if done.rows is None or done.documents is None:
        return f"a model of {done.vectors} vectors of {done.dim} dimensions in {done.path}"
    rows = counted(done.documents, "document")
    if done.rows != done.documents:
        rows += f" ({counted(done.rows, 'passage')})"
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
        "Credentials for the server: USER:PASSWORD, or an API key; default: MILVUS_TOKEN.",
    ] = "",
    insecure: Annotated[bool, "Send the token to another machine without TLS."] = False,
) -> Answer:
    """Bring Milvus up to date with an index: send what is new or changed, remove what is gone."""
    # Loads numpy and FAISS; connecting loads Milvus's client, of the extra `cluster`.
    from ..cluster.milvus_push import push as push_rows
    from ..cluster.milvus_server import Server

    opened = open_index(index)
    credentials = token or os.environ.get("MILVUS_TOKEN", "")
    with Server(milvus, credentials, insecure=insecure) as connected, console.progress():
        done = push_rows(opened, connected, name, leave_out or ())
    text = f"{done.sent:,} sent, {done.removed:,} removed, {done.rows:,} in {done.collection}"
    return Answer(asdict(done), text)
