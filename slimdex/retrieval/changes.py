"""Changes of an open index: functions from an index to JSON values.

The command line, the service and agents run them, as they run what `commands` reads. They are a
module of their own so that a search imports nothing that writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from slimdex.system.progress import note

from .documents import Document, id_text, ids_to_delete, json_of
from .index import Index
from .ingest.added import Added
from .ingest.adding import counts
from .ingest.adding import sync as sync_index
from .ingest.compacting import compact as compact_index
from .ingest.fitting import refit as refit_index
from .ingest.writer import delete as delete_documents
from .quality.info import facts
from .quality.near_duplicates import delete_near_duplicates, near_duplicates
from .quality.refitting import add_documents_then_refit, add_then_refit, check_refit
from .sources.source_request import SourceRequest, last_sources

ID_DIGITS = 16
"""Length of an id made of a document's content."""


def add(index: Index, sources: SourceRequest, refit: str) -> dict[str, Any]:
    """Add the documents of sources; returns `Collection.info` after that, with "added"."""
    # Loads readers of sources and the tuner, without which the other changes start sooner.
    from . import building

    check_refit(refit)
    return with_addition(index, building.add(index, sources.opened(), refit=refit))


def with_addition(index: Index, added: Added) -> dict[str, Any]:
    """Report an addition's notes; returns `Collection.info` with "added" and others."""
    for line in added.notes:
        note(line)
    return index.read(facts) | {
        "added": added.documents,
        "replaced": added.replaced,
        "unchanged": added.unchanged,
        "refitted": added.refitted,
        "file_notes": added.file_notes,
    }


def put(index: Index, documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add documents that the caller has; of several with one id, the last one counts.

    Each has a "text", and optionally "id", "title" and "metadata"; without an id, its id is a
    digest of the rest, so that the same document is added once. Returns the documents' "ids", the
    counts and "notes" of `Added`, and the number of all "documents".
    """
    new = [_put_document(**each) for each in documents]
    added = add_documents_then_refit(index, [*{each.id: each for each in new}.values()])
    return {
        "ids": [each.id for each in new],
        "added": added.documents,
        "replaced": added.replaced,
        "unchanged": added.unchanged,
        "documents": len(index.snapshot),
        "notes": added.notes,
    }


def _put_document(
    text: str,
    id: str | int | None = None,
    title: str = "",
    metadata: Mapping[str, Any] | None = None,
) -> Document:
    metadata = metadata or {}
    if id is None:
        content = {"title": title, "text": text, "metadata": dict(sorted(metadata.items()))}
        id = sha256(json_of(content, ensure_ascii=True).encode()).hexdigest()[:ID_DIGITS]
    return Document(id_text(id), text, title, metadata)


def sync(
    index: Index,
    sources: SourceRequest | None = None,
    refit: str = "auto",
    *,
    compacts: bool = False,
) -> dict[str, Any]:
    """Bring an index up to date with sources, by default with those of its last sync.

    If it `compacts`, an index with more deleted rows than documents is compacted. Returns the
    counts of `Collection.sync`, "gone" (deleted rows that still take space) and "file_notes" as
    `Added` has them.
    """
    opened = (sources or last_sources(index.path, index.state.origins)).opened()
    added = add_then_refit(index, refit, lambda: sync_index(index, opened))
    documents = len(index.snapshot)
    gone = index.snapshot.deleted_count
    if compacts and gone > documents:
        compact(index)
        gone = 0
    for line in added.notes:
        note(line)
    return counts(added, documents) | {"gone": gone, "file_notes": added.file_notes}


def delete(
    index: Index, ids: Sequence[str | int] | None = None, where: str | None = None
) -> dict[str, Any]:
    """Delete documents by their ids, or by a condition.

    Returns the numbers of deleted and left documents, and "gone": rows that still take space.
    """
    deleted = delete_documents(index, ids_to_delete(ids, where), where)
    gone = index.snapshot.deleted_count
    return {"deleted": deleted, "documents": len(index.snapshot), "gone": gone}


def dedup(index: Index, min_score: float, deletes: bool) -> dict[str, Any]:
    """Find near-duplicates, and delete all but the first of each group if it `deletes`.

    Returns the "groups" with the beginnings of their texts, and the numbers of duplicates, deleted
    and left documents.
    """
    if deletes:
        groups = delete_near_duplicates(index, min_score)
    else:
        groups = index.read(near_duplicates, min_score)
    duplicates = sum(len(group.others) for group in groups)
    return {
        "groups": [
            {
                "kept": group.kept,
                "text": group.texts[group.kept],
                "others": [
                    each._asdict() | {"text": group.texts[each.id]} for each in group.others
                ],
            }
            for group in groups
        ],
        "duplicates": duplicates,
        "deleted": duplicates if deletes else 0,
        "documents": len(index.snapshot),
    }


def compact(index: Index) -> dict[str, Any]:
    """Compact; returns the numbers of freed rows and of documents."""
    freed = compact_index(index)
    return {"freed": freed, "documents": len(index.snapshot)}


def reduce(index: Index, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce the vectors again, with some settings changed; returns `Collection.info` then."""
    wanted = index.state.requested.changed(settings, index.state.dim)
    for line in refit_index(index, wanted):
        note(line)
    return index.read(facts)
