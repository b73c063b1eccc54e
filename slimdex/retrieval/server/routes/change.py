"""Routes that change an index: put and delete documents, sync, compact, reduce, create, drop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from slimdex.errors import InputError
from slimdex.indexes.options import AUTO
from slimdex.system.locks import is_on_share
from slimdex.system.progress import listening

from ...documents import Document, check_columns, ids_to_delete
from ...index import Index
from ...ingest.adding import counts
from ...ingest.compacting import compact as compact_index
from ...ingest.fitting import refit
from ...ingest.writer import delete as delete_documents
from ...quality.refitting import sync_then_refit
from ...sources.source_request import SourceRequest
from ..access import Right
from ..middleware import needs
from ..served_index import ServedIndex
from .answers import (
    CHANGED,
    CompactedBody,
    CreatedBody,
    DeletedBody,
    DroppedBody,
    PutBody,
    ReducedBody,
    SyncedBody,
    answer,
    errors,
)
from .bodies import (
    CreateBody,
    DeleteBody,
    DocumentBody,
    Json,
    JsonRoute,
    ReduceBody,
    Served,
    SyncBody,
    refuse_unknown_parameters,
    service_of,
)

CORPUS = "corpus.jsonl"
"""Name of the only file that is read in a folder that contains it."""
routes = APIRouter(
    route_class=JsonRoute,
    dependencies=[Depends(needs(Right.WRITE)), Depends(refuse_unknown_parameters)],
    responses=errors(CHANGED),
    tags=["changes"],
)


@routes.put("/indexes/{name}/documents/{id:path}", responses=answer(PutBody))
async def put(index: Served, id: str, body: DocumentBody) -> Response:
    """Add or replace the document of this id. It is durable when this is answered."""
    if not id.strip():
        raise InputError("an empty id; expected one")
    metadata = body.model_extra or {}
    check_columns(len(metadata), "the body")  # before others' documents wait for this one
    await index.put(Document(id, body.text, body.title, metadata))
    return Json({"id": id, "documents": len(index.index.snapshot)})


@routes.delete("/indexes/{name}/documents/{id:path}", responses=answer(DeletedBody))
async def delete(index: Served, id: str) -> Response:
    """Delete a document."""
    return await _delete(index, [id])


@routes.post("/indexes/{name}/delete", responses=answer(DeletedBody))
async def delete_several(index: Served, body: DeleteBody) -> Response:
    """Delete documents by their ids, all or none, or by a condition."""
    return await _delete(index, body.ids, body.where)


async def _delete(
    index: ServedIndex, ids: Sequence[str | int] | None, where: str | None = None
) -> Response:
    """Delete documents by ids or by a condition; answer with their number."""

    def deleted(opened: Index) -> dict[str, Any]:
        count = delete_documents(opened, ids_to_delete(ids, where), where)
        return {"deleted": count, "documents": len(opened.snapshot)}

    return Json(await index.change(deleted))


@routes.post("/indexes/{name}/sync", responses=answer(SyncedBody))
async def sync(index: Served, body: SyncBody, request: Request) -> Response:
    """Synchronise the index with files and folders of the server, like `slimdex sync`.

    Only files in folders that the service was started with (`--files`) are allowed.
    """
    folders = service_of(request).folders
    _check_places(body.sources, folders)

    # Omitted options have the defaults of `slimdex sync`.
    options = body.model_dump(exclude={"sources", "refit"}, exclude_none=True)
    sources = SourceRequest(body.sources, **options)

    def synced(opened: Index) -> dict[str, Any]:
        added = sync_then_refit(opened, sources, body.refit)
        return counts(added, len(opened.snapshot)) | {
            "gone": opened.snapshot.deleted_count,
            "file_notes": added.file_notes,
            "notes": added.notes,
        }

    return Json(await index.change(synced))


def _is_inside(path: Path, folders: Sequence[Path]) -> bool:
    """Return whether a path, after following links, is in one of the folders."""
    return any(path.resolve().is_relative_to(folder) for folder in folders)


def _check_places(sources: Sequence[str], folders: Sequence[Path]) -> None:
    """Raise a 403 for sources that are not files in the folders."""
    drives = {folder.drive for folder in folders}
    for source in sources:
        # Collect the paths that may be read.
        path = Path(source)
        paths = [path, path / CORPUS]
        if "#" in source:  # a table of a database
            paths.append(Path(source.rpartition("#")[0]))

        # Looking for a file on another computer would reveal this one to it, so the paths are
        # followed only on this computer and the folders' own drives.
        may_be_followed = path.drive in drives or not is_on_share(path)
        is_inside = (
            "\0" not in source
            and path.is_absolute()
            and may_be_followed
            and all(_is_inside(each, folders) for each in paths)
        )
        has_prefix = ":" in source.removeprefix(path.drive).split("/")[0]  # such as sql:
        if not is_inside or has_prefix:
            raise HTTPException(
                403, f"source {source[:200]!r}; expected an absolute path in a folder of --files"
            )


@routes.post("/indexes/{name}/compact", responses=answer(CompactedBody))
async def compact(index: Served) -> Response:
    """Free disk space and memory of deleted and replaced documents."""

    def compacted(opened: Index) -> dict[str, Any]:
        return {"freed": compact_index(opened), "documents": len(opened.snapshot)}

    return Json(await index.change(compacted))


@routes.post("/indexes/{name}/reduce", responses=answer(ReducedBody))
async def reduce(index: Served, body: ReduceBody) -> Response:
    """Reduce the vectors again without encoding. Omitted settings are unchanged."""
    changes = _settings(body)

    def reduced(opened: Index) -> dict[str, Any]:
        notes = list[str]()
        with listening(note=notes.append):
            state = opened.state
            more = refit(opened, state.requested.changed(changes, state.dim))
        state = opened.state

        # Return the requested settings, and those in effect.
        return {
            "requested": state.requested.as_dict(),
            "settings": None if state.settings is None else state.settings.as_dict(),
            "notes": [*notes, *more],
        }

    return Json(await index.change(reduced))


@routes.put("/indexes/{name}", status_code=201, responses=answer(CreatedBody, 201))
async def create(name: str, body: CreateBody, request: Request) -> Response:
    """Create an empty index in the folder that the service was started with (`--root`)."""
    index = await service_of(request).create(name, _settings(body), body.passages)
    return Json({"name": index.name, "documents": 0}, 201)


@routes.delete("/indexes/{name}", responses=answer(DroppedBody))
async def drop(name: str, request: Request) -> Response:
    """Drop an index of the folder `--root`, with all its documents, after running requests."""
    return Json({"name": name, "dropped": await service_of(request).drop(name)})


def _settings(body: ReduceBody) -> dict[str, Any]:
    """Return the settings that a body names, and their values."""
    names = set(ReduceBody.model_fields)
    settings = body.model_dump(include=names, exclude_none=True)
    if settings.get("candidates") == AUTO:
        settings["candidates"] = None  # "auto" in `Settings`; None in the body means unchanged
    return settings
