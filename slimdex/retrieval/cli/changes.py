"""Change documents: `slimdex add`, `sync`, `encode`, `delete`, `dedup`, `undo` and `compact`."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from slimdex.errors import InputError, counted

from ..documents import ids_to_delete
from . import console
from .click_commands import Answer, Argument, Json
from .errors import is_interrupt, say
from .facts import facts_after
from .options import (
    Dir,
    NoEncode,
    OpenOptions,
    RayOptions,
    Refit,
    SourceOptions,
    Vectors,
    Where,
    WriteOptions,
    open_index,
)

if TYPE_CHECKING:
    from ..index import Index
    from ..sources.source_request import AnySources
    from ..store.manifest import Manifest

SHOWN = 100
"""Characters of a text that has near-duplicates."""
RETRY_SECONDS = 5.0
"""Seconds before another attempt after an error."""


def add(
    index: Dir,
    *,
    sources: SourceOptions,
    vectors: Vectors = None,
    refit: Refit = "auto",
    no_encode: NoEncode = False,
    opening: OpenOptions,
    cluster: RayOptions,
    writing: WriteOptions,
) -> Answer:
    """Add documents; one with an existing id replaces the older one."""
    # Loads numpy, FAISS and readers of files, a third of a second.
    from ..building import add as add_to_index
    from ..quality.refitting import check_refit
    from ..sources.source_request import added_sources, remember_sources

    with cluster.start() as workers, console.progress():
        source_request = sources.collect(vectors)
        opened = open_index(index, opening, writing, workers)
        check_refit(refit)
        known = added_sources(opened.path, opened.state.origins)
        added = add_to_index(opened, source_request.open(), refit=refit, encode=not no_encode)
        requests = [*known.requests, source_request]
        remember_sources(opened.path, requests, opened.state.origins)
        facts = facts_after(opened, added)
    return Answer(facts, console.index_line(facts), min(added.unread, 1))


def encode(
    index: Dir, *, opening: OpenOptions, cluster: RayOptions, writing: WriteOptions
) -> Answer:
    """Encode the documents that were entered and wait for their vectors."""
    # Loads numpy and FAISS, but no readers of files.
    from ..quality.refitting import encode_then_refit

    with cluster.start() as workers, console.progress():
        opened = open_index(index, opening, writing, workers)
        encoded = encode_then_refit(opened)
    for line in encoded.notes:
        console.note(line)
    facts = {"encoded": encoded.encoded, "documents": len(opened.snapshot)}
    return Answer(facts, f"{counted(encoded.encoded, 'text')} encoded")


def delete(
    index: Dir,
    ids: Annotated[list[str] | None, Argument("ID", "Ids of documents.")] = None,
    *,
    where: Where = None,
    writing: WriteOptions,
) -> Answer:
    """Delete documents by id, or by a condition."""
    # Loads numpy and FAISS, but no readers of files.
    from ..ingest.writer import delete as delete_documents

    with console.progress():
        opened = open_index(index, writing=writing)
        deleted = delete_documents(opened, ids_to_delete(ids, where), where)
    left = len(opened.snapshot)
    facts = {"deleted": deleted, "documents": left}
    return Answer(facts, f"{deleted:,} deleted, {left:,} left")


def compact(index: Dir, *, writing: WriteOptions) -> Answer:
    """Free the space of deleted and replaced documents, on disk and in memory."""
    from ..ingest.compacting import compact as compact_index  # loads numpy and FAISS

    with console.progress():
        opened = open_index(index, writing=writing)
        freed = compact_index(opened)
    documents = len(opened.snapshot)
    text = f"{counted(freed, 'row')} freed, {counted(documents, 'document')} left"
    return Answer({"freed": freed, "documents": documents}, text)


def undo(index: Dir, *, writing: WriteOptions) -> Answer:
    """Undo the last change of documents, settings or words. A second `undo` redoes it."""
    # Loads numpy and FAISS, but no readers of files.
    from ..ingest.undoing import undo as undo_change

    opened = open_index(index, writing=writing)
    with console.progress():
        done = asdict(undo_change(opened)) | {"documents": len(opened.snapshot)}
    text = "the settings and files before"
    if done["restored"] or done["removed"]:
        text = f"{done['restored']:,} restored, {done['removed']:,} removed"
    return Answer(done, f"{text}; {counted(done['documents'], 'document')}")


def dedup(
    index: Dir,
    *,
    min_score: Annotated[
        float, "COSINE", "Least cosine of the encoder's vectors; 1 for equal ones."
    ] = 0.95,
    delete: Annotated[bool, "Delete all documents of a group but the first added."] = False,
    writing: WriteOptions,
) -> Answer:
    """List groups of near-duplicates; the first added of each is named first."""
    # Loads numpy and FAISS, but no readers of files.
    from ..quality.near_duplicates import delete_near_duplicates, near_duplicates

    with console.progress():
        opened = open_index(index, writing=writing)
        if delete:
            groups = delete_near_duplicates(opened, min_score)
        else:
            groups = opened.read(near_duplicates, min_score)
    found = list[dict[str, Any]]()
    for group in groups:
        others = [
            {"id": id, "score": round(score, 6), "text": group.texts[id]}
            for id, score in group.others
        ]
        found.append({"kept": group.kept, "text": group.texts[group.kept], "others": others})
    duplicates = sum(len(group.others) for group in groups)
    documents = len(opened.snapshot)
    facts = {
        "groups": found,
        "duplicates": duplicates,
        "deleted": duplicates if delete else 0,
        "documents": documents,
    }

    def show() -> None:
        for group in found:
            console.line(group["kept"], "bold")
            console.line(f"  {_beginning(group['text'])}")
            for other in group["others"]:
                console.line(f"  {other['score']:.4f}  {other['id']}")
                console.line(f"          {_beginning(other['text'])}")
        deleted = " deleted" if delete else ""
        console.line(
            f"{counted(duplicates, 'near-duplicate')}{deleted}, {counted(documents, 'document')}"
        )

    return Answer(facts, show)


def _beginning(text: str) -> str:
    """Return the beginning of a text on one line."""
    # Loads numpy, as the index did whose texts these are.
    from ..search.excerpts import on_one_line, shorten

    return shorten(on_one_line(text), SHOWN)


def sync(
    index: Dir,
    *,
    sources: SourceOptions,
    watch: Annotated[bool, "Keep running, and sync whenever files change, until Ctrl-C."] = False,
    refit: Refit = "auto",
    opening: OpenOptions,
    cluster: RayOptions,
    writing: WriteOptions,
    as_json: Json = False,
) -> None:
    """Bring an index up to date with its sources: add what is new, replace what has changed,
    delete what is gone. Documents of other sources stay. Without sources: with all that were
    built, added or synced."""
    from ..sources.source_request import added_sources  # loads tempfile and hashlib

    with cluster.start() as workers:
        opened = open_index(index, opening, writing, workers)
        requested: AnySources = added_sources(opened.path, opened.state.origins)
        if sources != SourceOptions():
            requested = sources.collect()
        synced = _SyncedIndex(requested, index, opened, refit, as_json)
        if watch:
            synced.watch()
        elif code := synced.once():
            raise SystemExit(code)


@dataclass
class _SyncedIndex:
    """An index that is kept in sync with its sources."""

    sources: AnySources
    path: Path
    index: Index
    refit: str
    as_json: bool
    said: set[str] = field(default_factory=set)  # notes, or the error, of the last sync
    left: Manifest | None = None  # state after the last sync

    def once(self, *, watched: bool = False) -> int:
        """Sync; print the counts, and the notes that the last sync did not print.

        Return the exit code.

        If sources are `watched`, compact a mostly deleted index.
        """
        # Loads numpy, FAISS and readers of files.
        from ..commands import is_mostly_deleted
        from ..ingest.adding import counts
        from ..ingest.compacting import compact as compact_index
        from ..quality.refitting import sync_and_remember

        notes = list[str]()
        with console.progress(notes.append):
            added = sync_and_remember(self.index, self.sources, self.refit)
            if watched and is_mostly_deleted(self.index):
                compact_index(self.index)
        self.left = self.index.snapshot.manifest
        notes += added.notes
        for line in notes:
            if line not in self.said:
                console.note(line)
        self.said = set(notes)

        # Print the counts; for people the first four, "added" to "unchanged".
        done = counts(added, len(self.index.snapshot)) | {"file_notes": added.file_notes}
        summary = ", ".join(f"{done[name]:,} {name}" for name in [*done][:4])
        if self.as_json:
            print(json.dumps(done), flush=True)
        else:
            console.line(f"{summary}; {counted(done['encoded'], 'text')} encoded")
        return min(added.unread, 1)

    def watch(self) -> None:
        """Sync now, and whenever files change or the index is restored; retry after errors."""
        from ..sources.watching import ticks  # only with --watch

        places = [Path(spec) for spec in self.sources.specs]
        for place in places:
            if not place.exists():
                raise InputError(f"{place}: can't be watched; expected files and folders")
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # act as Ctrl-C
        retry_at = math.inf
        try:
            for changed in ticks(places, self.path):
                if changed or monotonic() >= retry_at or self._is_restored():
                    retry_at = math.inf if self._sync_watched() else monotonic() + RETRY_SECONDS
        except (KeyboardInterrupt, RuntimeError) as stop:  # DuckDB raises RuntimeError
            if not is_interrupt(stop):
                raise
            console.note("no longer watching")

    def _sync_watched(self) -> bool:
        """Sync and return whether that succeeded; an error ends the command in the first sync."""
        is_first = self.left is None
        try:
            self.once(watched=True)
        except InputError as error:
            if is_first:
                raise
            if str(error) not in self.said:
                say(str(error))
            self.said = {str(error)}
            return False
        if is_first:
            console.note("watching; Ctrl-C ends it")
        return True

    def _is_restored(self) -> bool:
        """Return whether a copy of the index was restored since the last sync."""
        return self.left is not None and self.index.snapshot.manifest.replaces(self.left)
