"""Syncing: bring an index up to date with its sources, in one commit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError

from . import adding
from .catalog.store import DocumentStore
from .ingest.made_up_ids import MadeUpIds
from .ingest.writer import Added
from .quality.refitting import check_refit
from .sources.column_agreement import agree_with
from .sources.files.file_source import FileSource
from .sources.source import Sources
from .sources.text_files import STANDARD_INPUT

if TYPE_CHECKING:
    from .collection import Collection


def sync(collection: Collection, sources: Sources, *, refit: str = "auto") -> Added:
    """Add what is new, replace what has changed, delete what is gone; other documents stay.

    Files with unchanged path, size and times are not read. A text that the index already has, in a
    document that is replaced or deleted, is not encoded again. Documents of a file that exists but
    can't be read stay. `refit` is as for `Collection.add`.

    Raises `InputError` if a source is standard input, which can't be read again, or the index was
    built from given vectors; or as `Collection.add` does. Then nothing is changed.
    """
    check_refit(refit)
    if any(source.place.startswith("stdin ") for source in sources.opened):
        raise InputError(f"{STANDARD_INPUT}: standard input; expected files, folders or packages")
    if not collection.has_encoder:
        raise InputError(f"{collection.path}: built from given vectors; expected an encoder's")
    return adding.with_new_ids(lambda: _synced(collection, sources, refit))


def _synced(collection: Collection, sources: Sources, refit: str) -> Added:
    store = collection.store
    notes = agree_with(store.columns.with_values, sources.opened)
    ids = MadeUpIds.of(sources.opened, collection.state, store)
    known = [replace(origin, known=store.origins.known(origin.place)) for origin in ids.readings]
    ids = replace(ids, readings=known)

    def missing(current: DocumentStore, first: int) -> Rows:
        now = current.origins
        # Documents whose origins have changed since are left to the next sync, which reads them.
        places = [each.place for each in ids.readings if each.known <= now.known(each.place)]
        origins = [*sources.origins(ids.readings)]
        missing_rows = now.missing(places, origins, first)
        gone = [row for row, id, place in missing_rows if _is_gone(id, place, sources, ids)]
        return np.array(gone, dtype=np.int64)

    with adding.places_told(collection, sources, ids):
        added = adding.add(
            collection, adding.of_sources(collection, sources, ids, missing), refit=refit
        )
    return replace(
        added,
        notes=[*notes, *ids.notes, *added.notes, *sources.left_out()],
        file_notes=sources.file_notes(),
    )


def _is_gone(id: str, place: str, sources: Sources, ids: MadeUpIds) -> bool:
    """Return whether a document of a file that was not found belongs to one of the sources."""
    return any(
        place == reading.place
        and (not isinstance(source, FileSource) or source.may_go(id, reading.prefix or ""))
        for source, reading in zip(sources.opened, ids.readings, strict=True)
    )


def counts(added: Added, documents: int) -> dict[str, Any]:
    """Count what a sync did; `documents` is the number of documents after it."""
    return {
        "added": added.documents - added.replaced - added.moved,
        "changed": added.replaced,
        "moved": added.moved,
        "deleted": added.deleted - added.moved,
        "unchanged": documents - added.documents,
        "documents": documents,
        "encoded": added.encoded,
        "refitted": added.refitted,
    }
