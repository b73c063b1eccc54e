"""Route of uploaded files: read by the readers of `slimdex add`, with progress."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import listening

from ...collection import Collection
from ...operations.uploading import AddFile, upload_name
from ..access.middleware import needs, reads_by_line
from ..access.tokens import Right
from ..limits import LimitError, Limits
from ..served_index import ServedIndex
from .bulk import STREAMED
from .change import Answering, as_lines
from .failures import told_of
from .search import Index, service_of

BYTES = "application/octet-stream"
OFTEN_S = 0.1
"""Seconds between two reports of a stage."""
routes = APIRouter(dependencies=[Depends(needs(Right.WRITE))])
Modified = Annotated[
    float | None, Query(ge=0, le=1e11, description="When the file was changed: seconds since 1970.")
]


@routes.put(
    "/indexes/{name}/files/{file:path}",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                BYTES: {"schema": {"type": "string", "format": "binary"}, "example": "The cat sat."}
            },
        }
    },
)
async def upload(index: Index, file: str, request: Request, modified: Modified = None) -> Response:
    """Add the documents of a file: a text, page, PDF, office file, mailbox, code or table.

    The file's name, perhaps with folders, is the id of its document, which replaces an earlier one.
    With `Accept: application/x-ndjson`, lines of JSON report the progress; the last line is the
    result.
    """
    name = upload_name(file)
    if index.senders >= index.limits.senders:
        raise LimitError(503, f"{index.senders} callers are sending documents; try again later")
    reads_by_line(request)
    told = _told(index, request, name, modified)
    first = await anext(told)
    if STREAMED[0] in request.headers.get("accept", "") and "error" not in first:
        return Answering(as_lines(first, told), media_type=STREAMED[0])
    last = [first, *[one async for one in told]][-1]
    return JSONResponse(last, last.pop("status", 200))


async def _told(
    index: ServedIndex, request: Request, name: str, modified: float | None
) -> AsyncGenerator[dict[str, Any]]:
    """Yield the progress; finally the result, or the error and its status."""
    index.senders += 1
    try:
        async with _received(request, index.limits, name) as path:
            if modified is not None:
                os.utime(path, (modified, modified))
            async for one in _done(index, AddFile(path, name)):
                yield one
    except Exception as error:
        status, line = told_of(error, service_of(request))
        yield {"error": line, "status": status}
    finally:
        index.senders -= 1


@asynccontextmanager
async def _received(request: Request, limits: Limits, name: str) -> AsyncGenerator[Path]:
    """Write the request's body to a temporary file."""
    with TemporaryDirectory(prefix="slimdex-upload-") as folder:
        path, size = Path(folder) / f"upload{''.join(Path(name).suffixes[-2:])[:40]}", 0
        with path.open("wb") as file:
            async for chunk in request.stream():
                size += len(chunk)
                if size > limits.file:
                    raise LimitError(
                        413,
                        f"{name}: over {limits.file:,} bytes; expected {limits.file:,} or fewer",
                    )
                await asyncio.to_thread(file.write, chunk)
        if not size:
            raise InputError(f"{name}: an empty file; expected some text in it")
        yield path


async def _done(index: ServedIndex, command: AddFile) -> AsyncGenerator[dict[str, Any]]:
    """Run the command; yield its progress and then its result."""
    loop, said = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any] | None]()
    last = ("", 0.0)

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal last
        now = monotonic()
        if stage != last[0] or done >= total or now - last[1] >= OFTEN_S:
            last = stage, now
            line = {"stage": stage, "done": done, "total": total}
            loop.call_soon_threadsafe(said.put_nowait, line)

    def run(collection: Collection) -> dict[str, Any]:
        with listening(progress):
            return command.run(collection)

    working = asyncio.ensure_future(index.change(run))
    working.add_done_callback(lambda _: said.put_nowait(None))
    while (line := await said.get()) is not None:
        yield line
    yield await working
