"""`slimdex sync`, once or whenever files change."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from slimdex.indexes.errors import InputError

from ... import console
from ...errors import is_interrupt, say
from ...execution import Index
from ...options.encoding import RayOptions
from ...options.opening import Dir, Json, OpenOptions, WriteOptions
from ...options.sources import Refit, SourceOptions
from .changes import still_there

if TYPE_CHECKING:
    from slimdex.retrieval.asked_sources import AskedSources
    from slimdex.retrieval.storage.manifest import Manifest

AGAIN = 5.0
"""Seconds before another attempt after an error."""


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
    delete what is gone. Documents of other sources stay. Without sources: with those of the last
    sync, or else of the build."""
    from slimdex.retrieval.asked_sources import last_sources

    with cluster.started() as workers:
        opened = Index(index, opening, writing, workers)
        if sources == SourceOptions():
            collection = opened.opened()
            asked = last_sources(collection.path, collection.state.origins)
        else:
            asked = sources.asked()
        synced = _Synced(asked, opened, refit, as_json)
        if watch:
            synced.watch()
        else:
            synced.once()


@dataclass
class _Synced:
    """An index that is kept in sync with its sources."""

    sources: AskedSources
    index: Index
    refit: str
    as_json: bool
    said: set[str] = field(default_factory=set)
    left: Manifest | None = None  # by the last sync

    def once(self, *, watched: bool = False) -> None:
        """Sync and report."""
        from slimdex.retrieval import commands
        from slimdex.retrieval.asked_sources import remember_sources

        notes = list[str]()
        synced = partial(commands.sync, sources=self.sources, refit=self.refit, compacts=watched)
        found = self.index.do(synced, notes.append)
        collection = self.index.opened()
        remember_sources(collection.path, self.sources, collection.state.origins)
        self.left = collection.snapshot.manifest
        if (gone := found.pop("gone")) > found["documents"]:
            notes.append(still_there(self.index.path, gone))
        for line in notes:
            if line not in self.said:
                console.note(line)
        self.said = set(notes)
        self._report(found)

    def watch(self) -> None:
        """Sync whenever files have changed, or the index was restored; try again after errors."""
        from slimdex.retrieval.sources.watching import ticks

        places = self._places()
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            self._follow(ticks(places, self.index.path))
        except (KeyboardInterrupt, RuntimeError) as stop:
            if not is_interrupt(stop):
                raise
            console.note("no longer watching")

    def _places(self) -> list[Path]:
        specs = self.sources.specs
        if missing := [spec for spec in specs if not Path(spec).exists()]:
            raise InputError(f"{missing[0]}: can't be watched; expected files and folders")
        return [Path(spec) for spec in specs]

    def _follow(self, ticks: Iterable[bool]) -> None:
        is_first, again = True, math.inf
        for changed in ticks:
            if not changed and monotonic() < again and not self._is_restored():
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

    def _is_restored(self) -> bool:
        """Return whether a copy of the index was restored since the last sync."""
        now = self.index.opened().snapshot.manifest
        return self.left is not None and now.replaces(self.left)

    def _report(self, found: dict[str, Any]) -> None:
        if self.as_json:
            print(json.dumps(found), flush=True)
            return
        counts = ", ".join(f"{found[name]:,} {name}" for name in [*found][:5])
        texts = "text" if found["encoded"] == 1 else "texts"
        console.line(f"{counts}; {found['encoded']:,} {texts} encoded")
