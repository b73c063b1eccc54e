"""Changing commands: documents come, are kept in step, go, and make room; commands of `app`."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import console
from .asked_sources import column_names, open_sources, specs_of
from .errors import is_interrupt, say
from .options import (
    Dir,
    Encoding,
    Format,
    Id,
    Json,
    Model,
    Refit,
    SourcesOrSql,
    Sql,
    Text,
    Title,
    Trust,
    Types,
    Vectors,
    Wait,
    Where,
)

if TYPE_CHECKING:
    from ..collection.writer import Added
    from ..encoders.base import Encoder
    from ..sources.tables import ColumnNames

PATIENCE = 30.0
"""Seconds that `--watch` waits for others that read the index."""
AGAIN = 5.0
"""Seconds after which it tries again what went wrong."""


def add(
    index: Dir,
    sources: SourcesOrSql = None,
    sql: Sql = None,
    vectors: Vectors = None,
    text: Text = None,
    id: Id = None,
    title: Title = None,
    model: Model = None,
    refit: Refit = "auto",
    types: Types = None,
    encoding: Encoding = None,
    file_format: Format = None,
    trust_remote_code: Trust = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Add documents; one with the id of an older one takes its place."""
    from ..building import add as add_sources
    from ..collection.collection import Collection
    from ..collection.refitting import check_refit
    from . import console

    check_refit(refit)  # before anything is read

    names = column_names(text, id, title, types)
    opened = open_sources(specs_of(sources, sql), names, vectors, encoding, file_format)
    opened_index = Collection.open(
        index, model=model, trust_remote_code=trust_remote_code, wait=wait
    )
    with opened_index as collection:
        with console.progress() as progress:
            added = add_sources(collection, opened, progress, refit=refit)
        console.show_index(collection, added, as_json)


def sync(
    index: Dir,
    sources: SourcesOrSql = None,
    sql: Sql = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Go on doing so whenever files change, until Ctrl-C."),
    ] = False,
    text: Text = None,
    id: Id = None,
    title: Title = None,
    model: Model = None,
    refit: Refit = "auto",
    types: Types = None,
    encoding: Encoding = None,
    file_format: Format = None,
    trust_remote_code: Trust = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Bring an index in step with its sources: add what is new, replace what has changed, delete
    what is gone; documents of other sources stay."""
    from ..collection.refitting import check_refit

    check_refit(refit)
    asked = _Synced(
        index,
        specs_of(sources, sql),
        column_names(text, id, title, types),
        {"encoding": encoding, "file_format": file_format},
        {"model": model, "trust_remote_code": trust_remote_code},
        refit,
        as_json,
    )
    if watch:
        asked.watch(wait)
    else:
        asked.once(wait)


@dataclass
class _Synced:
    """An index and its sources, brought in step once or again and again."""

    index: Path
    specs: list[str]
    names: ColumnNames
    files: dict[str, Any]
    encoder_at: dict[str, Any]
    refit: str
    as_json: bool
    encoder: Encoder | None = None
    said: set[str] = field(default_factory=set)

    def once(self, wait: float, *, watched: bool = False) -> None:
        """The index is open no longer than that takes: others may read it in between."""
        from ..collection.collection import Collection
        from ..syncing import sync as sync_sources

        notes = list[str]()
        with Collection.open(self.index, self.encoder, **self.encoder_at, wait=wait) as collection:
            opened = open_sources(self.specs, self.names, **self.files, note=notes.append)
            with console.progress() as progress:
                added = sync_sources(collection, opened, progress, refit=self.refit)
            self.encoder, documents = collection._encoder, len(collection)
            if (gone := collection._snapshot.deleted_count) > documents:
                if watched:
                    collection.compact()
                else:
                    notes.append(still_there(self.index, gone))
        notes = [*added.notes, *notes]
        for line in notes:
            if line not in self.said:
                console.note(line)
        self.said = set(notes)
        self._tell(added, documents)

    def watch(self, wait: float) -> None:
        """Again whenever files have changed; what goes wrong is said, and tried again."""
        from slimdex.indexes.errors import InputError

        from ..watching import ticks

        places = [Path(spec) for spec in self.specs if Path(spec).exists()]
        if len(places) < len(self.specs):
            named = next(spec for spec in self.specs if not Path(spec).exists())
            raise InputError(f"{named}: can't be watched; expected files and folders")
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        is_first, again = True, math.inf
        try:
            for changed in ticks(places, self.index):
                if not changed and monotonic() < again:
                    continue
                try:
                    self.once(max(wait, PATIENCE), watched=True)
                    again = math.inf
                except InputError as error:
                    if is_first:
                        raise
                    if str(error) not in self.said:
                        say(str(error))
                    self.said, again = {str(error)}, monotonic() + AGAIN
                if is_first:
                    console.note("watching; Ctrl-C ends it")
                is_first = False
        except (KeyboardInterrupt, RuntimeError) as stop:
            if not is_interrupt(stop):
                raise
            console.note("no longer watching")

    def _tell(self, added: Added, documents: int) -> None:
        counts = {
            "added": added.documents - added.replaced - added.moved,
            "changed": added.replaced,
            "moved": added.moved,
            "deleted": added.deleted - added.moved,
            "unchanged": documents - added.documents,
            "documents": documents,
            "encoded": added.encoded,
            "refitted": added.refitted,
        }
        if self.as_json:
            print(json.dumps(counts), flush=True)
            return
        said = ", ".join(f"{counts[name]:,} {name}" for name in [*counts][:5])
        texts = "text" if added.encoded == 1 else "texts"
        console.line(f"{said}; {added.encoded:,} {texts} encoded")


def delete(
    index: Dir,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Ids.")] = None,
    where: Where = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Delete documents by id, or by a condition."""
    from ..collection.collection import Collection
    from . import console

    with Collection.open(index, wait=wait) as collection:
        deleted = collection.delete(ids or None, where=where)
        left, gone = len(collection), collection._snapshot.deleted_count
    if as_json:
        console.print_json({"deleted": deleted, "documents": left})
    else:
        console.line(f"{deleted:,} deleted, {left:,} left")
        if gone > left:
            console.note(still_there(index, gone))


def still_there(index: Path, gone: int) -> str:
    """What to say of deleted rows that are more than those that are left."""
    return f"{gone:,} rows still take space: `slimdex compact {index}` frees it"


def compact(index: Dir, wait: Wait = 0, as_json: Json = False) -> None:
    """Free the space of deleted and replaced documents, on disk and in memory."""
    from ..collection.collection import Collection
    from . import console

    with Collection.open(index, wait=wait) as collection:
        with console.progress() as progress:
            freed = collection.compact(progress=progress)
        left = len(collection)
    if as_json:
        console.print_json({"freed": freed, "documents": left})
    else:
        console.line(f"{freed:,} rows freed, {left:,} documents left")
