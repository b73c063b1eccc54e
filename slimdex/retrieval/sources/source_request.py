"""Sources as a caller names them, and those of an index's build or last sync.

They are remembered in the user's cache, not in the index: an index keeps no paths of this machine,
and one from elsewhere must not choose what is read here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from slimdex.errors import InputError, short_repr
from slimdex.system.progress import note
from slimdex.system.user_cache import load_remembered, remember

if TYPE_CHECKING:
    from .source import Sources


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

    def open(self) -> Sources:
        """Open the sources and report their notes; raises `InputError` as `Sources.open` does."""
        # What remembers and compares sources needs none of their readers.
        from .files.input_files import FileFormat
        from .source import Sources
        from .tabular.columns import ColumnNames, parse_types

        names = ColumnNames(self.text, self.id, self.title, types=parse_types([*self.types]))
        files = FileFormat(
            encoding=self.encoding,
            format=self.file_format,
            follow_links=self.follow_links,
            exclude=self.exclude,
            generated=self.generated,
        )
        opened = Sources.open([*self.specs], names, self.vectors, files)
        for line in opened.notes:
            note(line)
        return opened


def as_source_request(
    sources: str | Path | Sequence[str | Path],
    text: str | None = None,
    id: str | None = None,
    title: str | None = None,
    *,
    follow_links: bool = False,
    exclude: Sequence[str] = (),
    generated: bool = False,
) -> SourceRequest:
    """The sources that a program names; raises `InputError` if there are none.

    >>> as_source_request(Path("notes"), title="heading").specs
    ['notes']
    """
    paths = [sources] if isinstance(sources, str | Path) else [*sources]
    are_paths = all(isinstance(path, str | Path) and str(path) != "-" for path in paths)
    if not paths or not are_paths:
        raise InputError(f"sources {short_repr(sources)}; expected files or folders")
    if isinstance(exclude, str):
        raise InputError(f"exclude {short_repr(exclude)}; expected a list of patterns")
    return SourceRequest(
        specs=[*map(str, paths)],
        text=text,
        id=id,
        title=title,
        follow_links=follow_links,
        exclude=exclude,
        generated=generated,
    )


def remember_sources(index: Path, sources: SourceRequest, origins: Mapping[str, str]) -> None:
    """Remember the sources of a build or sync, except standard input, which can't be read again.

    `origins` are those of the index's state after it.
    """
    from .files.input_files import STANDARD_INPUT  # loads readers of files

    if STANDARD_INPUT in sources.specs:
        return
    with suppress(OSError):  # no working directory
        record = {
            "origins": sorted({*origins.values()}),
            "folder": str(Path.cwd()),
            "sources": asdict(sources),
        }
        remember(_name(index), record)


def last_sources(index: Path, origins: Mapping[str, str]) -> SourceRequest:
    """The sources of an index's build or last sync on this machine.

    Paths that were relative to another working directory become absolute. Raises `InputError` if
    there was none, or the index has since been rebuilt from other sources.
    """
    try:
        record = load_remembered(_name(index))
        names = {field.name for field in fields(SourceRequest)}
        # Another release may have other fields.
        values = {name: record["sources"][name] for name in names & record["sources"].keys()}
        sources = SourceRequest(**values)
        folder = Path(record["folder"])
        is_known = {*record["origins"]} <= {*origins.values()}
    except (AttributeError, KeyError, TypeError):
        is_known = False
    if not is_known:
        hint = f", such as {index.parent}" if index.name == ".slimdex" else ""
        raise InputError(
            f"{index}: no sources of its build or of an earlier sync; expected files or folders"
            f"{hint}"
        )
    if Path.cwd() == folder:
        return sources

    # Absolute paths stay the same when they are joined to the other folder.
    specs = [str(folder / spec) if _is_path(spec) else spec for spec in sources.specs]
    return replace(sources, specs=specs)


def _is_path(spec: str) -> bool:
    """Return whether a source is a file or folder, not a package, a query or standard input."""
    return spec != "-" and not spec.startswith(("python:", "sql:"))


def _name(index: Path) -> str:
    """Name under which the sources of an index are remembered."""
    return f"sources-{sha256(os.fsencode(index.absolute())).hexdigest()[:32]}"
