"""Commands on an open index, run by the process that has it open: a command line or a service.

Each consists of plain values, so that a command line can send it to the service that has the index
open, and returns JSON values. A command imports its own dependencies when it runs, so that searches
do not wait for those of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import note

from ..as_json import document_json, hit_json
from ..collection import Collection
from ..search.request import SearchRequest

if TYPE_CHECKING:
    from ..ingest.writer import Added
    from .building import Sources

STANDARD_INPUT = "-"


class Command(Protocol):
    """A command on an index.

    `changes` is True if it may change the index.
    """

    changes: ClassVar[bool]

    def run(self, collection: Collection) -> dict[str, Any]:
        """Run the command; returns JSON values."""
        ...


@dataclass(frozen=True)
class AskedSources:
    """Sources as given on a command line.

    Attributes
    ----------
    specs : files, folders, packages, queries, and "-".
    standard_input : file to read for "-" in place of this process's standard input.
    links_within : folders that links below a folder must not lead out of.
    """

    specs: Sequence[str]
    text: str | None = None
    id: str | None = None
    title: str | None = None
    types: Sequence[str] = ()
    vectors: str | None = None
    encoding: str | None = None
    file_format: str | None = None
    standard_input: str | None = None
    links_within: Sequence[str] | None = None

    @property
    def is_piped(self) -> bool:
        """True if a source is standard input."""
        return STANDARD_INPUT in self.specs

    def opened(self) -> Sources:
        """Open the sources and report their notes; raises `InputError` as `Sources.open` does."""
        from ..sources.files.folders.walking import links_within
        from ..sources.tabular.column_names import ColumnNames
        from ..sources.tabular.duckdb_readers import checked_types
        from ..sources.text_files import FileFormat, standard_input_from
        from .building import Sources  # also imports the readers of all sources

        names = ColumnNames(self.text, self.id, self.title, types=checked_types([*self.types]))
        files = FileFormat(self.encoding, self.file_format)
        with standard_input_from(self.standard_input), links_within(self.links_within):
            opened = Sources.open([*self.specs], names, self.vectors, files)
        for line in opened.notes:
            note(line)
        return opened

    def from_anywhere(self) -> Self:
        """Return the same sources with absolute paths, for a process in another folder."""
        vectors = self.vectors and _whole(self.vectors)
        return replace(self, specs=[_whole(spec) for spec in self.specs], vectors=vectors)


def _whole(spec: str) -> str:
    """Make a path absolute, with the table of a database if it has one; keep anything else."""
    place, mark, table = spec, "", ""
    if not Path(spec).exists():
        place, mark, table = spec.rpartition("#")
    return f"{Path(place).absolute()}{mark}{table}" if place and Path(place).exists() else spec


@dataclass(frozen=True)
class Add:
    """Add the documents of sources."""

    sources: AskedSources
    refit: str = "auto"
    changes: ClassVar[bool] = True

    def run(self, collection: Collection) -> dict[str, Any]:
        """Return `Collection.info` after the addition, with "added"."""
        from ..quality.refitting import check_refit
        from .building import add as add_sources

        check_refit(self.refit)
        opened = self.sources.opened()
        added = add_sources(collection.core, opened, refit=self.refit)
        return with_addition(collection, added)


def with_addition(collection: Collection, added: Added) -> dict[str, Any]:
    """Report an addition's notes; returns `Collection.info` with "added"."""
    for line in added.notes:
        note(line)
    return collection.info() | {
        "added": added.documents,
        "replaced": added.replaced,
        "unchanged": added.unchanged,
        "refitted": added.refitted,
    }


@dataclass(frozen=True)
class Sync:
    """Bring an index up to date with its sources.

    If it `compacts`, an index with more deleted rows than documents is compacted.
    """

    sources: AskedSources
    refit: str = "auto"
    compacts: bool = False
    changes: ClassVar[bool] = True

    def run(self, collection: Collection) -> dict[str, Any]:
        """Return the counts of `syncing.counts`, and "gone": deleted rows that still take space."""
        from ..quality.refitting import check_refit
        from .syncing import counts
        from .syncing import sync as sync_sources

        check_refit(self.refit)
        opened = self.sources.opened()
        added = sync_sources(collection.core, opened, refit=self.refit)
        documents, gone = len(collection), collection.core.snapshot.deleted_count
        if self.compacts and gone > documents:
            collection.compact()
            gone = 0
        for line in added.notes:
            note(line)
        return counts(added, documents) | {"gone": gone}


@dataclass(frozen=True)
class Delete:
    """Delete documents by their ids, or by a condition."""

    ids: Sequence[str | int] | None = None
    where: str | None = None
    changes: ClassVar[bool] = True

    def run(self, collection: Collection) -> dict[str, Any]:
        """Return the numbers of deleted and left documents, and "gone": rows still taking space."""
        ids = None if self.ids is None else [*self.ids]
        deleted = collection.delete(ids, where=self.where)
        gone = collection.core.snapshot.deleted_count
        return {"deleted": deleted, "documents": len(collection), "gone": gone}


@dataclass(frozen=True)
class Compact:
    """Free the space of deleted and replaced documents."""

    changes: ClassVar[bool] = True

    def run(self, collection: Collection) -> dict[str, Any]:
        """Return the numbers of freed rows and of documents."""
        freed = collection.compact()
        return {"freed": freed, "documents": len(collection)}


@dataclass(frozen=True)
class Reduce:
    """Reduce the vectors again, with some settings changed."""

    settings: Mapping[str, Any]
    changes: ClassVar[bool] = True

    def run(self, collection: Collection) -> dict[str, Any]:
        """Return `Collection.info` after the reduction."""
        state = collection.core.state
        wanted = state.requested.changed(self.settings, state.dim)
        for line in collection.reduce(wanted):
            note(line)
        return collection.info()


@dataclass(frozen=True)
class IndexWords:
    """Build the lexical index, or remove it."""

    wanted: bool = True
    changes: ClassVar[bool] = True

    def run(self, collection: Collection) -> dict[str, Any]:
        """Return the number of documents and the size of the lexical index (None without one)."""
        collection.index_words(self.wanted)
        return {"documents": len(collection), "words": collection.info()["words"]}


@dataclass(frozen=True)
class Search:
    """Answer a search request without reranking.

    Attributes
    ----------
    excerpts : whether to find the best passage of each text.
    columns : metadata columns to return, each a name or several separated by commas.
    """

    request: SearchRequest
    excerpts: bool = False
    columns: Sequence[str] = ()
    changes: ClassVar[bool] = False

    def run(self, collection: Collection) -> dict[str, Any]:
        """Return each query's hits, excerpts of their texts, and the score of random documents."""
        from ..search.excerpts import beginning, nearest_passages

        request = self.request
        columns = chosen_columns(self.columns, list(collection.core.store.columns.committed))
        found = collection.answer(request)
        texts = None
        if self.excerpts and request.texts is None:
            texts = [[beginning(hit) for hit in hits] for hits in found]
        elif self.excerpts and request.texts is not None:
            texts = nearest_passages(collection.encoder, request.texts, found)
        chance = None
        if request.has_chance_score:
            chance = collection.chance_score(request.where)
        return {
            "hits": [[hit_json(hit) for hit in hits] for hits in found],
            "excerpts": texts,
            "chance_score": chance,
            "columns": columns,
        }


def chosen_columns(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """Columns named by `--show`, each a name or several separated by commas.

    Raises `InputError` if there is no such column.

    >>> chosen_columns(["Year,kind", "a,b"], ["year", "kind", "a,b"])
    ['year', 'kind', 'a,b']
    """
    by_lower = {name.lower(): name for name in known}
    names = []
    for word in asked:
        names += [word] if word.lower() in by_lower else [n.strip() for n in word.split(",")]
    if unknown := [name for name in names if name.lower() not in by_lower]:
        there = ", ".join(known) or "none: this index has no columns"
        raise InputError(f"--show {unknown[0]!r}: no such column; expected {there}")
    return [by_lower[name.lower()] for name in names]


@dataclass(frozen=True)
class Fetch:
    """Fetch a whole document by its id or, if none has this id, by a path with one document."""

    id: str
    changes: ClassVar[bool] = False

    def run(self, collection: Collection) -> dict[str, Any]:
        """Return the document."""
        return document_json(collection.get(self._known_by(collection)))

    def _known_by(self, collection: Collection) -> str:
        if self.id in collection or "path" not in collection.core.store.columns.committed:
            return self.id
        from ..catalog.where.conditions import Compare, as_sql

        found = collection.documents_where(as_sql(Compare("path", "=", self.id)))
        return found[0].id if len(found) == 1 else self.id


@dataclass(frozen=True)
class Info:
    """Report contents, settings and costs of an index."""

    changes: ClassVar[bool] = False

    def run(self, collection: Collection) -> dict[str, Any]:
        """Return `Collection.info`."""
        return collection.info()


@dataclass(frozen=True)
class Health:
    """Measure how far the documents are from those the index was fitted on."""

    sample: int
    changes: ClassVar[bool] = False

    def run(self, collection: Collection) -> dict[str, Any]:
        """Return `Collection.health`, with the word for its rows as "noun"."""
        report = collection.health(sample=self.sample)
        return report | {"noun": collection.core.snapshot.noun}


@dataclass(frozen=True)
class Columns:
    """Report the values of the documents' columns."""

    changes: ClassVar[bool] = False

    def run(self, collection: Collection) -> dict[str, Any]:
        """Return `ColumnValues.facts`."""
        return {"columns": collection.core.store.columns.facts()}


COMMANDS: Mapping[str, type[Command]] = {
    "add": Add,
    "sync": Sync,
    "delete": Delete,
    "compact": Compact,
    "reduce": Reduce,
    "words": IndexWords,
    "search": Search,
    "open": Fetch,
    "info": Info,
    "health": Health,
    "columns": Columns,
}
_NAMES = {command: name for name, command in COMMANDS.items()}


def command_json(command: Command) -> dict[str, Any]:
    """Convert a command to JSON values, to be run by another process.

    >>> command_json(Delete(["7"]))
    {'name': 'delete', 'asked': {'ids': ['7'], 'where': None}}
    """
    asked: Any = command
    if isinstance(command, Add | Sync):
        asked = replace(command, sources=command.sources.from_anywhere())
    said = asdict(asked)
    if isinstance(command, Search) and command.request.vectors is not None:
        said["request"]["vectors"] = command.request.vectors.tolist()
    return {"name": _NAMES[type(command)], "asked": said}


def command_of(said: Mapping[str, Any]) -> Command:
    """Convert JSON values to a command; raises `InputError` if they are invalid.

    >>> command_of(command_json(Delete(["7"])))
    Delete(ids=['7'], where=None)
    """
    try:
        asked = dict(said["asked"])
        if "sources" in asked:
            asked["sources"] = AskedSources(**asked["sources"])
        if "request" in asked:
            asked["request"] = SearchRequest(**asked["request"])
        return COMMANDS[said["name"]](**asked)
    except (KeyError, TypeError) as error:
        raise InputError(f"unknown command {str(said)[:100]} ({error})") from error
