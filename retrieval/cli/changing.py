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
from .asked_sources import asked_sources
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
from .performing import Index

if TYPE_CHECKING:
    from ..commands import AskedSources

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
    """Add documents; one with an existing id replaces the older one."""
    from ..collection.refitting import check_refit
    from ..commands import Add

    check_refit(refit)  # before anything is read
    asked = asked_sources(
        sources,
        sql,
        text=text,
        id=id,
        title=title,
        types=types,
        vectors=vectors,
        encoding=encoding,
        file_format=file_format,
    )
    at = Index(index, wait, model=model, trust_remote_code=trust_remote_code)
    console.show_index(at.do(Add(asked, refit)), as_json)


def sync(
    index: Dir,
    sources: SourcesOrSql = None,
    sql: Sql = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Keep running, and sync whenever files change, until Ctrl-C."),
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
    """Bring an index up to date with its sources: add what is new, replace what has changed,
    delete what is gone. Documents of other sources stay."""
    from ..collection.refitting import check_refit

    check_refit(refit)
    asked = _Synced(
        asked_sources(
            sources,
            sql,
            text=text,
            id=id,
            title=title,
            types=types,
            encoding=encoding,
            file_format=file_format,
        ),
        Index(index, wait, model=model, trust_remote_code=trust_remote_code),
        refit,
        as_json,
    )
    if watch:
        asked.watch()
    else:
        asked.once()


@dataclass
class _Synced:
    """An index and its sources, brought in step once or again and again."""

    sources: AskedSources
    index: Index
    refit: str
    as_json: bool
    said: set[str] = field(default_factory=set)

    def once(self, *, watched: bool = False) -> None:
        """The index is open no longer than that takes: others may read it in between."""
        from ..commands import Sync

        notes = list[str]()
        found = self.index.do(Sync(self.sources, self.refit, compacts=watched), notes.append)
        if (gone := found.pop("gone")) > found["documents"]:
            notes.append(still_there(self.index.path, gone))
        for line in notes:
            if line not in self.said:
                console.note(line)
        self.said = set(notes)
        self._tell(found)

    def watch(self) -> None:
        """Again whenever files have changed; what goes wrong is said, and tried again."""
        from slimdex.indexes.errors import InputError

        from ..watching import ticks

        specs = self.sources.specs
        places = [Path(spec) for spec in specs if Path(spec).exists()]
        if len(places) < len(specs):
            named = next(spec for spec in specs if not Path(spec).exists())
            raise InputError(f"{named}: can't be watched; expected files and folders")
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        self.index.wait = max(self.index.wait, PATIENCE)
        is_first, again = True, math.inf
        try:
            for changed in ticks(places, self.index.path):
                if not changed and monotonic() < again:
                    continue
                try:
                    self.once(watched=True)
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

    def _tell(self, found: dict[str, Any]) -> None:
        if self.as_json:
            print(json.dumps(found), flush=True)
            return
        said = ", ".join(f"{found[name]:,} {name}" for name in [*found][:5])
        texts = "text" if found["encoded"] == 1 else "texts"
        console.line(f"{said}; {found['encoded']:,} {texts} encoded")


def delete(
    index: Dir,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids of documents.")] = None,
    where: Where = None,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Delete documents by id, or by a condition."""
    from ..commands import Delete

    found = Index(index, wait).do(Delete(ids or None, where))
    deleted, left, gone = found["deleted"], found["documents"], found["gone"]
    if as_json:
        console.print_json({"deleted": deleted, "documents": left})
    else:
        console.line(f"{deleted:,} deleted, {left:,} left")
        if gone > left:
            console.note(still_there(index, gone))


def still_there(index: Path, gone: int) -> str:
    """What to say of deleted rows that are more than those that are left."""
    return f"{gone:,} rows still take space: `slimdex compact {index}` frees it"


def words(
    index: Dir,
    off: Annotated[
        bool, typer.Option("--off", help="Remove it; searches are semantic only.")
    ] = False,
    wait: Wait = 0,
    as_json: Json = False,
) -> None:
    """Build a lexical index (BM25) for `search --hybrid`; changes keep it up to date."""
    from ..commands import IndexWords

    found = Index(index, wait).do(IndexWords(not off))
    if as_json:
        console.print_json(found)
    elif found["words"] is None:
        console.line("no words' index any more")
    else:
        each = found["words"]["disk_bytes_per_vector"]
        console.line(f"words of {found['documents']:,} documents, {each:,.0f} bytes a vector")


def compact(index: Dir, wait: Wait = 0, as_json: Json = False) -> None:
    """Free the space of deleted and replaced documents, on disk and in memory."""
    from ..commands import Compact

    found = Index(index, wait).do(Compact())
    if as_json:
        console.print_json(found)
    else:
        console.line(f"{found['freed']:,} rows freed, {found['documents']:,} documents left")
