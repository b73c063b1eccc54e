"""Routes that take documents in bulk: as lines of JSON, and as files, with reports of progress.

During a commit no more is read: the connection's buffer fills up, and the caller waits.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from slimdex.errors import InputError, shorten
from slimdex.system.atomic_files import temporary_parent
from slimdex.system.json_text import parse_request_json
from slimdex.system.progress import listening, throttled

from ...documents import BUILT_IN_COLUMNS, id_text, json_of
from ...index import Index
from ...ingest.adding import add_sources
from ...ingest.addition_report import AdditionReport
from ...ingest.source_ids import SourceIds
from ...quality.refitting import add_documents_then_refit, add_then_refit
from ...sources.files.file_source import FileSource
from ...sources.files.input_files import FileFormat, ending_of, open_file
from ...sources.source import Source, Sources
from ...sources.tabular.columns import ColumnNames
from ...sources.tabular.table_files import READERS
from ...sources.tabular.tables import TableSource
from ..access import Right
from ..limits import LimitError, Limits
from ..middleware import needs, reads_by_line
from ..served_index import ServedIndex
from .answers import CHANGED, AddedBody, Responses, errors
from .bodies import JsonRoute, Served, refuse_unknown_parameters, service_of
from .failures import status_and_message

JSON = "application/json"
STREAMED = ("application/x-ndjson", "application/jsonl", "application/ndjson")
"""Content types that are read line by line, with a limit per line."""
BYTES = "application/octet-stream"
OFTEN_S = 0.1
"""Seconds between two reports of a stage."""
RESERVED = sorted({*BUILT_IN_COLUMNS} - {"id", "title", "text"})
DOCUMENT = {
    "type": "object",
    "required": ["id", "text"],
    "properties": {
        "id": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "text": {"description": "A text; other types become one."},
        "title": {"description": "The same."},
    },
    "propertyNames": {"minLength": 1, "not": {"enum": RESERVED}},
}
"""Schema of a document in a body."""
ADDED: Responses = {
    200: {"model": AddedBody, "content": {STREAMED[0]: {"schema": {"type": "string"}}}}
}
routes = APIRouter(
    route_class=JsonRoute,
    dependencies=[Depends(needs(Right.WRITE)), Depends(refuse_unknown_parameters)],
    responses=errors(CHANGED),
    tags=["changes"],
)
Modified = Annotated[
    float | None, Query(ge=0, le=1e11, description="When the file was changed: seconds since 1970.")
]
COUNTS = ("documents", "replaced", "unchanged", "encoded")
NO_COUNTS = dict.fromkeys(("lines", *COUNTS), 0)
"""Counts of what is durable, before the first commit; `lines` includes empty lines."""
Line = tuple[int, bytes]
"""A line's number, from 1, and its bytes."""


@routes.post(
    "/indexes/{name}/documents",
    responses=ADDED,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                JSON: {
                    "schema": {
                        "anyOf": [DOCUMENT, {"type": "array", "items": DOCUMENT, "minItems": 1}]
                    },
                    "example": [{"id": "1", "text": "The cat sat on the mat.", "year": 1990}],
                },
            },
        }
    },
)
async def add(
    index: Served, request: Request, refit: Literal["auto", "never", "always"] = "auto"
) -> Response:
    """Add documents with an id, a text and optionally a title; other fields are metadata.

    One document or an array as JSON is committed at once. Lines of JSON, of any number, are
    committed in batches, whose fit is checked as with `refit=auto`.

    With `Accept: application/x-ndjson`, each durable commit is reported as a line of JSON.
    """
    type_ = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if type_ == JSON:
        body = parse_request_json(await request.body(), "the body")
        return JSONResponse(await commit(index, body, refit))
    if type_ not in STREAMED:
        raise LimitError(415, f"a body of type {type_!r}; expected {JSON} or {STREAMED[0]}")
    return await _answer(index, request, commits(index, request.stream()), durable=NO_COUNTS)


@routes.put(
    "/indexes/{name}/files/{file:path}",
    responses=ADDED,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                BYTES: {"schema": {"type": "string", "format": "binary"}, "example": "The cat sat."}
            },
        }
    },
)
async def upload(index: Served, file: str, request: Request, modified: Modified = None) -> Response:
    """Add the documents of a file: a text, page, PDF, office file, mailbox, code or table.

    The file's name, perhaps with folders, is the id of its document, which replaces an earlier one.
    With `Accept: application/x-ndjson`, lines of JSON report the progress; the last line is the
    result.
    """
    return await _answer(index, request, _file_reports(index, request, upload_name(file), modified))


class Answering(StreamingResponse):
    """An answer that begins while the request is still being read, line by line.

    Starlette's own would also read the request, to detect a disconnection.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        await self.stream_response(send)


async def _answer(
    index: ServedIndex,
    request: Request,
    reports: AsyncGenerator[dict[str, Any]],
    durable: dict[str, Any] | None = None,
) -> Response:
    """Answer with reports as lines of JSON if the caller accepts them, else with the last one.

    `durable` is the state before the first report; an error states the last one.
    """
    if index.senders >= index.limits.senders:
        raise LimitError(503, f"{index.senders} callers are sending documents; try again later")
    reads_by_line(request)
    reported = _with_counts(index, request, reports, durable)
    last = await anext(reported)

    # An immediate error is not streamed, since it has its own status.
    if STREAMED[0] in request.headers.get("accept", "") and "error" not in last:
        return Answering(_as_lines(last, reported), media_type=STREAMED[0])
    async for report in reported:
        last = report
    status = last.pop("status", 200)  # of an error
    return JSONResponse(last, status)


async def _with_counts(
    index: ServedIndex,
    request: Request,
    reports: AsyncGenerator[dict[str, Any]],
    durable: dict[str, Any] | None,
) -> AsyncGenerator[dict[str, Any]]:
    """Yield the reports; finally the error and its status, if any.

    Meanwhile the caller counts as one of the index's senders. `durable` is as in `_answer`.
    """
    index.senders += 1
    last = durable
    try:
        async with aclosing(reports):
            async for report in reports:
                last = report
                yield report
    except Exception as error:
        status, line = status_and_message(error, service_of(request))
        failure: dict[str, Any] = {"error": line, "status": status}
        yield failure if durable is None else failure | {"durable": last}
    finally:
        index.senders -= 1


async def _as_lines(
    first: dict[str, Any], rest: AsyncIterator[dict[str, Any]]
) -> AsyncIterator[str]:
    """Format reports as lines of JSON."""
    yield json_of(first) + "\n"
    async for report in rest:
        yield json_of(report) + "\n"


async def _file_reports(
    index: ServedIndex, request: Request, name: str, modified: float | None
) -> AsyncGenerator[dict[str, Any]]:
    """Receive a file and add it; yield the progress and then the result."""
    async with _receive(request, index.limits, name) as path:
        if modified is not None:
            os.utime(path, (modified, modified))
        async for report in _change(index, partial(add_file, path=path, name=name)):
            yield report


@asynccontextmanager
async def _receive(request: Request, limits: Limits, name: str) -> AsyncGenerator[Path]:
    """Write the request's body to a temporary file."""
    with TemporaryDirectory(prefix="slimdex-upload-", dir=temporary_parent()) as folder:
        # Keep the ending, such as .csv.gz, which readers look at.
        ending = "".join(Path(name).suffixes[-2:])[:40]
        path = Path(folder) / f"upload{ending}"
        size = 0
        with path.open("wb") as file:
            # The size is known only at the end, so check it after each chunk.
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


async def _change(
    index: ServedIndex, change: Callable[[Index], dict[str, Any]]
) -> AsyncGenerator[dict[str, Any]]:
    """Change an index; yield the progress and then the result."""
    loop = asyncio.get_running_loop()
    reports = asyncio.Queue[dict[str, Any] | None]()

    def send(stage: str, done: int, total: int) -> None:
        line = {"stage": stage, "done": done, "total": total}
        loop.call_soon_threadsafe(reports.put_nowait, line)

    def run(index: Index) -> dict[str, Any]:
        with listening(throttled(send, OFTEN_S)):
            return change(index)

    # Progress comes from the writer's thread; None marks its end.
    working = asyncio.ensure_future(index.change(run))
    working.add_done_callback(lambda _: reports.put_nowait(None))
    while (report := await reports.get()) is not None:
        yield report
    yield await working


async def commits(index: ServedIndex, body: AsyncIterator[bytes]) -> AsyncGenerator[dict[str, Any]]:
    """Yield the counts of what is durable after each commit of lines.

    Raises `InputError` for an invalid document, with its line number, and `LimitError` for a line
    that is too long. Earlier commits remain.
    """
    counts = NO_COUNTS
    async for lines in _parts(body, index.limits):
        added = await index.change(partial(_add, lines=lines))
        last_number, _ = lines[-1]
        counts = _with(counts, added, last_number)
        yield counts
    if not counts["lines"]:
        raise InputError("no documents; expected lines of JSON, each with an id and a text")


async def commit(index: ServedIndex, body: Any, refit: str = "auto") -> dict[str, Any]:
    """Commit the documents of a JSON value, an object or a list of them.

    Returns the counts, and the notes of the addition and whether it refitted. Raises `InputError`
    for an invalid document, with its number.
    """
    values = body if isinstance(body, list) else [body]
    documents = _last(enumerate(values, start=1), "document")
    if not documents:
        raise InputError("no documents; expected at least one")

    # An id that occurs twice in one request is a mistake.
    if len(documents) < len(values):
        id, times = Counter(id_text(value["id"]) for value in values).most_common(1)[0]
        raise InputError(f"id {shorten(id)} occurs {times} times; expected each id once")
    added = await index.change(lambda it: add_documents_then_refit(it, documents, refit=refit))
    return _with(NO_COUNTS, added, len(values)) | {"notes": added.notes, "refitted": added.refitted}


def _with(counts: dict[str, Any], added: AdditionReport, lines: int) -> dict[str, Any]:
    """Return the counts after another commit; `lines` is the number of its last line."""
    sums = {name: counts[name] + getattr(added, name) for name in COUNTS}
    return {"lines": lines, **sums}


def _last(numbered: Iterable[tuple[int, Any]], what: str) -> list[dict[str, Any]]:
    """Return the last document of each id, as if documents were added one after the other.

    Raises `InputError` for an invalid document; the message has `what` it is and its number.
    """
    documents = {}
    for number, value in numbered:
        if not isinstance(value, dict) or "id" not in value or "text" not in value:
            raise InputError(f"{what} {number:,}: expected a JSON object with an id and a text")
        try:
            documents[id_text(value["id"])] = value
        except InputError as error:
            raise InputError(f"{what} {number:,}: {error}") from error
    return [*documents.values()]


def _add(index: Index, lines: Sequence[Line]) -> AdditionReport:
    """Add the documents of some lines in one commit; errors state the lines' numbers."""
    values = ((number, parse_request_json(line, f"line {number:,}")) for number, line in lines)
    documents = _last(values, "line")
    try:
        return add_documents_then_refit(index, documents)
    except InputError as error:
        raise InputError(f"lines {lines[0][0]:,} to {lines[-1][0]:,}: {error}") from error


async def _parts(body: AsyncIterator[bytes], limits: Limits) -> AsyncIterator[list[Line]]:
    """Yield nonempty lines, in batches to be committed together."""
    part = list[Line]()
    size = 0
    async for number, line in _lines(body, limits):
        if line.strip():
            part.append((number, line))
            size += len(line)
        if len(part) >= limits.commit or size >= limits.commit_bytes:
            yield part
            part = []
            size = 0
    if part:
        yield part


async def _lines(body: AsyncIterator[bytes], limits: Limits) -> AsyncIterator[Line]:
    """Yield the lines of a body with their numbers; raises `LimitError` as `_check` does."""
    number = 1
    rest = bytearray()  # the unfinished line, which began to arrive at `since`
    since = monotonic()
    async for chunk in body:
        # The first part of a chunk continues the unfinished line.
        first, *others = chunk.split(b"\n")
        rest += first
        _check(number, len(rest), monotonic() - since, limits)
        for other in others:
            yield number, bytes(rest)
            number += 1
            rest = bytearray(other)
            _check(number, len(rest), 0.0, limits)
        if others:
            since = monotonic()
    if rest:
        yield number, bytes(rest)


def _check(number: int, size: int, seconds: float, limits: Limits) -> None:
    """Raise `LimitError` for a line that is too long or too slow."""
    if size > limits.line:
        raise LimitError(413, f"line {number:,}: {size:,} bytes; expected {limits.line:,} or fewer")
    if seconds > limits.idle:
        raise LimitError(
            408, f"line {number:,}: incomplete after {limits.idle:g} s; expected the rest of it"
        )


def add_file(index: Index, path: Path, name: str) -> dict[str, Any]:
    """Add the documents of a file, whose id is its `name`, the path by which its sender calls it.

    Returns the counts and notes of an `AdditionReport`, and all "documents" of the index as
    "total". Raises `InputError` if the kind of file is unknown, or there is nothing to read in it.
    """
    sources = Sources([_open(path, name)])
    added = add_then_refit(
        index, "auto", lambda: add_sources(index, sources, lambda _: SourceIds())
    )
    added = replace(added, notes=[*sources.notes, *added.notes])
    return asdict(added) | {"total": len(index.snapshot)}


def _open(path: Path, name: str) -> Source:
    """Open an uploaded file as a table or as documents; `name` is the sender's name for it."""
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


def upload_name(name: str) -> str:
    """Return a file's name, perhaps with folders; raises `InputError` if it leads out of them.

    >>> upload_name("reports/2024.md")
    'reports/2024.md'
    >>> upload_name("../secrets.md")
    Traceback (most recent call last):
    ...
    slimdex.errors.InputError: file '../secrets.md'; expected a name such as notes/boiler.md
    """
    parts = name.split("/")
    is_odd = any(part.strip() in ("", ".", "..") for part in parts)
    if is_odd or len(name) > 500 or "\\" in name or not name.isprintable():
        raise InputError(f"file {name[:100]!r}; expected a name such as notes/boiler.md")
    return name
