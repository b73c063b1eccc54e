"""Route that takes a file and adds its documents."""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from slimdex.errors import InputError
from slimdex.system.atomic_files import temporary_parent

from ...index import Index
from ...ingest.adding import add_sources
from ...quality.refitting import add_then_refit
from ...sources.files.file_source import FileSource
from ...sources.files.input_files import FileFormat, ending_of, open_file
from ...sources.source import Source, Sources
from ...sources.tabular.columns import ColumnNames
from ...sources.tabular.table_files import READERS
from ...sources.tabular.tables import TableSource
from ..access import Right
from ..middleware import needs, within
from .bodies import ERRORS, AddedBody, Json, Served, refuse_unknown_parameters

routes = APIRouter(
    dependencies=[Depends(needs(Right.WRITE)), Depends(refuse_unknown_parameters)],
    responses=ERRORS,
    tags=["changes"],
)
FILE = {"schema": {"type": "string", "format": "binary"}, "example": "The cat sat."}
Modified = Annotated[
    float | None, Query(ge=0, le=1e11, description="When the file was changed: seconds since 1970.")
]


@routes.put(
    "/indexes/{name}/files/{file:path}",
    response_model=AddedBody,
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/octet-stream": FILE}}
    },
)
async def upload(index: Served, file: str, request: Request, modified: Modified = None) -> Response:
    """Add the documents of a file: a text, page, PDF, office file, mailbox, code or table.

    The file's name, perhaps with folders, is the id of its document, which replaces an earlier one.
    """
    _check_name(file)
    receive = within(request.receive, index.limits.file, index.limits.idle)
    with TemporaryDirectory(prefix="slimdex-upload-", dir=temporary_parent()) as folder:
        # Keep the ending, such as .csv.gz, which readers look at.
        ending = "".join(Path(file).suffixes[-2:])[:40]
        path = Path(folder) / f"upload{ending}"
        with path.open("wb") as received:
            async for chunk in Request(request.scope, receive).stream():
                await asyncio.to_thread(received.write, chunk)

        if modified is not None:
            os.utime(path, (modified, modified))
        return Json(await index.change(partial(_add_file, path=path, name=file)))


def _check_name(name: str) -> None:
    """Raise `InputError` for a name that leads out of its folder, or is unusual otherwise."""
    is_odd = any(part.strip() in ("", ".", "..") for part in name.split("/"))
    if is_odd or len(name) > 500 or "\\" in name or not name.isprintable():
        raise InputError(f"file {name[:100]!r}; expected a name such as notes/boiler.md")


def _add_file(index: Index, path: Path, name: str) -> dict[str, Any]:
    """Add the documents of a file, which its sender calls `name`.

    Raises `InputError` if the kind of file is unknown, or there is nothing to read in it.
    """
    sources = Sources([_open(path, name)])
    added = add_then_refit(index, "auto", lambda: add_sources(index, sources, has_ids=True))
    return asdict(replace(added, notes=[*sources.notes, *added.notes]))


def _open(path: Path, name: str) -> Source:
    """Open an uploaded file as a table or as documents."""
    if ending_of(Path(name), FileFormat()) in READERS:
        file = open_file(name, path)
        file.id_prefix = name
        return TableSource(file, ColumnNames())

    # A file of any other kind is one document, or contains several.
    source = FileSource.of_file(name, path, name)
    if source is None:
        raise InputError(
            f"{name}: an unknown kind of file; expected a text, page, PDF, office file, mailbox, "
            f"code or table ({', '.join(READERS)})"
        )
    return source
