"""Sources as a caller names them, and those that were added to an index.

They are remembered in the user's cache, not in the index: an index keeps no paths of this machine,
and one from elsewhere must not choose what is read here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from slimdex.errors import InputError, short_repr
from slimdex.system.progress import note
from slimdex.system.user_cache import load_remembered, remember

if TYPE_CHECKING:
    from .files.input_files import FileFormat
    from .source import Sources
    from .tabular.columns import ColumnNames


@dataclass(frozen=True)
class SourceRequest:
    """Sources as a caller names them.

    Attributes
    ----------
    specs : files, folders, packages, queries, and "-".
    text, id, title : columns of tables; by default found by their names.
    follow_links : whether links that lead out of a folder are followed.
    exclude : patterns of files to leave out, as in a `.gitignore` of each folder.
    generated : whether generated files are read, too.
    """

    specs: Sequence[str]
    text: str | None = None
    id: str | None = None
    title: str | None = None
    types: Sequence[str] = ()
    vectors: str | None = None
    encoding: str | None = None
    file_format: str | None = None
    follow_links: bool = False
    exclude: Sequence[str] = ()
    generated: bool = False

    @property
    def names(self) -> ColumnNames:
        """The names and types of columns."""
        # What remembers and compares sources needs none of their readers.
        from .tabular.columns import ColumnNames, parse_types

        return ColumnNames(
            self.text, self.id, self.title, self.vectors, types=parse_types([*self.types])
        )

    @property
    def files(self) -> FileFormat:
        """The form of files, and which of them are read."""
        from .files.input_files import FileFormat  # see `names`

        return FileFormat(
            encoding=self.encoding,
            format=self.file_format,
            follow_links=self.follow_links,
            exclude=self.exclude,
            generated=self.generated,
        )

    @property
    def requests(self) -> Sequence[SourceRequest]:
        """This request alone; `AddedSources` has several."""
        return [self]

    def open(self) -> Sources:
        """Open the sources and report their notes; raises `InputError` as `Sources.open` does."""
        from .source import Sources  # see `names`

        opened = Sources.open([*self.specs], self.names, self.files)
        for line in opened.notes:
            note(line)
        return opened


def specs_of(sources: str | Path | Sequence[str | Path]) -> list[str]:
    """The files and folders that a program names; raises `InputError` if there are none.

    >>> specs_of(Path("notes"))
    ['notes']
    """
    paths = [sources] if isinstance(sources, str | Path) else [*sources]
    are_paths = all(isinstance(path, str | Path) and str(path) != "-" for path in paths)
    if not paths or not are_paths:
        raise InputError(f"sources {short_repr(sources)}; expected files or folders")
    return [*map(str, paths)]


@dataclass(frozen=True)
class AddedSources:
    """All sources that were added to an index, each with its own options."""

    requests: Sequence[SourceRequest]

    @property
    def specs(self) -> list[str]:
        """Files, folders, packages and queries."""
        return [spec for request in self.requests for spec in request.specs]

    def open(self) -> Sources:
        """Open the sources together, each file once, and report their notes."""
        from .source import Sources, open_source  # see `SourceRequest.names`

        opened = Sources.of(
            open_source(spec, request.names, request.files)
            for request in self.requests
            for spec in request.specs
        )
        for line in opened.notes:
            note(line)
        return opened


AnySources = SourceRequest | AddedSources


def remember_sources(
    index: Path, requests: Sequence[SourceRequest], origins: Mapping[str, str]
) -> None:
    """Remember the sources of an index, of which the last request for a source counts.

    Standard input can't be read again, and a path that no longer exists may have moved: neither is
    remembered. `origins` are those of the index's state after the last addition.
    """
    sources = {}
    with suppress(OSError):  # no working directory
        for request in requests:
            for spec in request.specs:
                is_path = not spec.startswith(("python:", "sql:"))
                place = os.path.abspath(spec) if is_path else spec
                file = place.rpartition("#")[0]  # of a table in a file of several
                if not is_path or os.path.exists(place) or os.path.exists(file):
                    sources[place] = asdict(request) | {"specs": [spec]}
        places = sorted({*origins.values()})
        record = {"origins": places, "folder": str(Path.cwd()), "sources": sources}
        for name in _names(index):
            remember(name, record)


def added_sources(index: Path, origins: Mapping[str, str]) -> AddedSources:
    """The sources that this user added to an index, as remembered; empty if they are not known.

    They are not known to other users, after the cache was emptied, or once the index was built
    again from other sources. Paths that were relative to another working directory become absolute.
    """
    for name in _names(index):
        record = load_remembered(name)
        try:
            is_here = record["folder"] == str(Path.cwd())
            requests = []
            for place, values in record["sources"].items():
                specs = values["specs"] if is_here else [place]
                requests.append(SourceRequest(**values | {"specs": specs}))
            if {*record["origins"]} <= {*origins.values()}:
                return AddedSources(requests)
        except (AttributeError, KeyError, TypeError):  # none, or written by another release
            continue
    return AddedSources(())


def _names(index: Path) -> list[str]:
    """Names under which the sources of an index are remembered: a moved one keeps its inode."""
    path = sha256(os.fsencode(index.absolute())).hexdigest()[:32]
    return [f"sources-{index.stat().st_ino}", f"sources-{path}"]
