"""Syncing: bring an index up to date with its sources, in one commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from slimdex.indexes.arrays import Rows
from slimdex.indexes.errors import InputError

from ..index import Index
from ..sources.files.file_source import FileSource
from ..sources.files.input_files import STANDARD_INPUT
from ..sources.source import Sources
from ..store.document_store import DocumentStore
from .adding import Missing, add_sources
from .made_up_ids import MadeUpIds
from .writer import Added


def sync(index: Index, sources: Sources) -> Added:
    """Add what is new, replace what has changed, delete what is gone; other documents stay.

    Files with unchanged path, size and times are not read. A text that the index already has, in a
    document that is replaced or deleted, is not encoded again. Documents of a file that exists but
    can't be read stay.

    Raises `InputError` if a source is standard input, which can't be read again, or the index was
    built from given vectors; or as `Collection.add` does. Then nothing is changed.
    """
    if any(source.place.startswith("stdin ") for source in sources.opened):
        raise InputError(f"{STANDARD_INPUT}: standard input; expected files, folders or packages")
    if not index.has_encoder:
        raise InputError(f"{index.path}: built from given vectors; expected an encoder's")

    def ids_with_known(store: DocumentStore) -> MadeUpIds:
        ids = MadeUpIds.of(sources.opened, index.state, store)
        known = [replace(each, known=store.known_origins(each.place)) for each in ids.readings]
        return replace(ids, readings=known)

    return add_sources(index, sources, ids_with_known, lambda ids: _missing(sources, ids))


def _missing(sources: Sources, ids: MadeUpIds) -> Missing:
    """The documents whose files are gone, once those of the sources are read."""

    def missing(current: DocumentStore, first: int) -> Rows:
        # Documents whose origins have changed since are left to the next sync, which reads them.
        known = current.known_origins
        places = [each.place for each in ids.readings if each.known <= known(each.place)]
        origins = [*sources.origins(ids.readings)]
        missing_rows = current.gone_from(places, origins, first)
        gone = [row for row, id, place in missing_rows if _is_gone(id, place, sources, ids)]
        return np.array(gone, dtype=np.int64)

    return missing


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
