"""Tools of the Model Context Protocol with short, quotable answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from inspect import Parameter, signature
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any, Protocol, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BeforeValidator, Field
from starlette.routing import Route
from starlette.types import ASGIApp

from slimdex.retrieval import commands

from ..documents import (
    Document,
    Hit,
    id_text,
    ids_to_delete,
    json_of,
    shown_hit,
    visible_values,
)
from ..index import Index
from ..ingest.adding import counts
from ..ingest.writer import delete as delete_documents
from ..quality.refitting import add_documents_then_refit, sync_then_refit
from ..search.answer import related as related_to
from ..search.excerpts import are_by_chance, quote
from ..search.options import SearchOptions, options_of
from ..search.places import file_of
from ..search.request import SearchRequest
from ..sources.source_request import SourceRequest, last_sources
from ..store.columns import column_facts
from .agents_server import AgentsServer, Argument, is_blank, reporting
from .limits import Limits
from .line_ranges import read_lines
from .routes.bodies import in_json
from .routes.failures import unknown

T = TypeVar("T")
Tool = Callable[..., Awaitable[CallToolResult]]
QUOTED = 1200
"""Characters of a passage in an answer."""
READ = 8000
READ_TOGETHER = 24_000
"""Characters of a document, and of several together, returned per call."""
MOST_HITS = 50
LONGEST_QUERY = Limits.text
"""Largest limit of a search, and most characters of its query."""
BY_CHANCE = "The best passage is no closer than a random document."
FILE_FACTS = ("path", "folder", "modified", "kind", "language", "pages", "front_matter")
"""Columns about a document's file, which `get` and `fetch` return but hits omit."""
SYNCED = ("added", "changed", "moved", "deleted", "unchanged", "documents")
"""Counts of a sync that agents get."""
ID_DIGITS = 16
"""Length of an id made of a document's content."""
READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


class Run(Protocol):
    """Function that runs a command on an index."""

    def __call__(self, name: str, command: Callable[[Index], T], where: str | None) -> Awaitable[T]:
        """Run it on the index of a name; with the command's condition, which may take long."""


@dataclass(frozen=True)
class Indexes:
    """The indexes that agents name; `folders` are known if the agents are on this machine."""

    names: Collection[str]
    run: Run
    remark: Callable[[str], Awaitable[str]] | None = None
    folders: Mapping[str, Path] = field(default_factory=dict)

    async def ask(
        self, name: str, command: Callable[[Index], T], where: str | None = None
    ) -> tuple[T, str]:
        """Run a command on an index; returns its result, and a remark on what that lacks or ""."""
        index = self.named(name)
        remark = await self.remark(index) if self.remark else ""
        return await self.run(index, command, where), remark

    def folder(self, name: str) -> Path | None:
        """Folder of an index, if known."""
        return self.folders.get(self.named(name))

    def named(self, name: str) -> str:
        """Return a known name, or the only one for ""; raises `ToolError` for an unknown name."""
        names = self.names
        if not name and len(names) == 1:
            (name,) = names
        if not name:
            expected = f"one of {', '.join(names)}" if names else "one, but this service has none"
            raise ToolError(f"no index named; expected {expected}")
        if name not in names:
            raise ToolError(f"index {unknown(name, names)}")
        return name


def _id(id: Any) -> Any:
    """Convert an id that is a number; others are validated as texts."""
    return id_text(id) if isinstance(id, int) and not isinstance(id, bool) else id


Id = Annotated[str, BeforeValidator(_id)]
Limit = Annotated[int, Field(ge=1, le=MOST_HITS)]
FOR_AGENTS: dict[str, tuple[Any, Any]] = {"limit": (Limit, 5)}
"""Options of a search that have another type and default for agents."""
Where = Annotated[str, Field(description="SQL condition on the columns of `info`.")]


class LineRange(Argument):
    """Lines of a document to read: those of its file, or of its text if these are not known."""

    id: Annotated[Id, Field(description="Id of a document, or path of its file.")]
    line: int = Field(1, ge=1, description="First line.")
    last_line: int = Field(0, ge=0, description="Last line; 0: to the end.")


class NewDocument(Argument):
    """A document to add."""

    text: str
    id: Annotated[Id, Field(description="Made of the content if omitted.")] = ""
    title: str = ""
    metadata: dict[str, Any] = Field({}, description="Values of columns, for `where`.")

    def as_document(self) -> Document:
        """Return the document to add.

        A missing id becomes a digest of the content, so that the same content is added only once.
        """
        if self.id:
            return Document(id_text(self.id), self.text, self.title, self.metadata)
        metadata = dict(sorted(self.metadata.items()))
        content = {"title": self.title, "text": self.text, "metadata": metadata}
        digest = sha256(json_of(content, ensure_ascii=True).encode()).hexdigest()
        return Document(digest[:ID_DIGITS], self.text, self.title, self.metadata)


def agents_server(
    names: Collection[str],
    read: Run,
    change: Run | None = None,
    *,
    remark: Callable[[str], Awaitable[str]] | None = None,
    followed: Mapping[str, SourceRequest] | None = None,
    places: Mapping[str, Path] | None = None,
) -> AgentsServer:
    """Create a server with tools over indexes.

    They are search, related, get, fetch and info, and with `change` add, delete and sync; the names
    of indexes may change. `remark` says what an answer of an index lacks, or "". `followed` are
    sources to sync with in place of those of the last sync; `places` the indexes' folders, for the
    paths of files, if the agents are on this machine.
    """
    about = "`add`, `delete` and `sync` change them for all users. " if change else ""
    server = AgentsServer(
        ", ".join(names) or "slimdex",
        instructions="Search documents by meaning: ask in whole phrases. `search` returns passages "
        "to quote, `get` and `fetch` the document around them, `related` similar documents. "
        "The file of a passage is its `file`, or else `folder`/`id`. "
        f"{about}Indexes: {', '.join(names)}.",
        version=version("slimdex"),
        log_level="WARNING",
    )
    indexes = Indexes(names, read, remark, places or {})
    _add_searches(server, indexes)
    _add_readers(server, indexes)
    if change is not None:
        _add_writers(server, Indexes(names, change), followed or {})
    return server


def with_options(options: type[SearchOptions], tool: Tool) -> Tool:
    """Give a tool that has `**options` the options of a search that agents are offered."""
    # The tool's own parameters, without `**options`.
    original = signature(tool, eval_str=True)
    parameters = [each for each in original.parameters.values() if each.kind != each.VAR_KEYWORD]

    for name, option in options_of(options).items():
        if option.agents is None:  # not offered
            continue
        kind, default = FOR_AGENTS.get(name) or in_json(option)
        if kind == str | None:  # takes more words in the schema than a blank text
            kind = str
            default = ""
        described: Any = Annotated[kind, Field(description=option.agents or option.help)]
        facts: Any = {"default": default, "annotation": described}
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, **facts))
    tool.__signature__ = original.replace(parameters=parameters)  # type: ignore[attr-defined]
    return tool


def _add_searches(server: AgentsServer, indexes: Indexes) -> None:
    @server.tool(annotations=READS)
    @partial(with_options, SearchOptions)
    async def search(
        query: Annotated[str, Field(max_length=LONGEST_QUERY, description="A phrase or question.")],
        index: str = "",
        **options: Any,
    ) -> CallToolResult:
        """Find the passages closest in meaning to a query, best first, with id and line."""
        chosen = {name: value for name, value in options.items() if not is_blank(value)}
        request = SearchRequest(texts=[query], **chosen)
        command = partial(commands.search, request=request)
        result, remark = await indexes.ask(index, command, request.condition)
        (hits,) = result.hits
        is_chance = bool(hits) and are_by_chance(hits, result.chance_score, query)
        notes = [remark, result.unfinished, BY_CHANCE if is_chance else ""]
        return _passages(hits, indexes.folder(index), query, " ".join(filter(None, notes)))

    @server.tool(annotations=READS)
    async def related(
        id: Annotated[Id, Field(description="Id of a document.")],
        index: str = "",
        limit: Limit = 5,
        where: Where = "",
    ) -> CallToolResult:
        """Find the documents closest in meaning to a document, each by its closest passage."""
        condition = where or None

        def nearest(opened: Index) -> list[Hit]:
            return opened.read(related_to, commands.id_of(opened, id), limit, condition)

        hits, remark = await indexes.ask(index, nearest, condition)
        return _passages(hits, indexes.folder(index), "", remark)


def _add_readers(server: AgentsServer, indexes: Indexes) -> None:
    @server.tool(annotations=READS)
    async def get(
        documents: Annotated[list[LineRange], Field(min_length=1, max_length=MOST_HITS)],
        index: str = "",
    ) -> CallToolResult:
        """Read lines of documents, several at once."""
        ranges = [(each.id, each.line, each.last_line or None) for each in documents]
        longest = min(READ, READ_TOGETHER // len(ranges))
        command = partial(read_lines, ranges=ranges, longest=longest)
        read, remark = await indexes.ask(index, command)
        files = [_file(each["metadata"], indexes.folder(index)) for each in read]
        return _answer(_with_files(read, files, "documents"), remark)

    @server.tool(annotations=READS)
    async def fetch(
        id: Annotated[Id, Field(description="Id of a document.")],
        index: str = "",
        start: Annotated[int, Field(ge=0, description="Offset of the first character.")] = 0,
    ) -> CallToolResult:
        """Read a document, some thousand characters at a time."""
        document, remark = await indexes.ask(index, partial(commands.fetch, id=id))
        part = {
            "id": document.id,
            "title": document.title,
            "text": document.text[start : start + READ],
            "start": start,
            "characters": len(document.text),
            "metadata": visible_values(document.metadata),
        }
        return _answer(part, remark)

    @server.tool(annotations=READS)
    async def info(index: str = "") -> CallToolResult:
        """Describe an index: number of documents, and the columns that `where` may use."""

        def describe(opened: Index) -> dict[str, Any]:
            snapshot = opened.snapshot
            spec = snapshot.state.encoder
            # The name of the model's folder; `PureWindowsPath` splits paths of any system.
            encoder = PureWindowsPath(spec.get("model") or spec["type"]).name
            return {
                "name": indexes.named(index),
                "documents": len(snapshot),
                "encoder": encoder,
                "columns": column_facts(opened.store),
            }

        return _answer(*await indexes.ask(index, describe))


def _add_writers(
    server: AgentsServer, indexes: Indexes, followed: Mapping[str, SourceRequest]
) -> None:
    @server.tool(annotations=CHANGES)
    async def add(
        documents: Annotated[list[NewDocument], Field(min_length=1)],
        context: Context[Any, Any],
        index: str = "",
    ) -> CallToolResult:
        """Add documents, all or none; each replaces the document of the same id."""
        new = [each.as_document() for each in documents]
        last = {each.id: each for each in new}  # of several with one id, the last one counts

        def put(opened: Index) -> dict[str, Any]:
            done = add_documents_then_refit(opened, [*last.values()])
            return {
                "ids": [each.id for each in new],
                "added": done.documents,
                "replaced": done.replaced,
                "unchanged": done.unchanged,
                "documents": len(opened.snapshot),
                "notes": done.notes,
            }

        return _answer(*await indexes.ask(index, reporting(put, context)))

    @server.tool(annotations=CHANGES)
    async def delete(
        context: Context[Any, Any],
        ids: Annotated[list[Id], Field(description="Ids of documents, all of them known.")] = [],  # noqa: B006, a default in the schema
        where: Annotated[str, Field(description="Or a condition, as in `search`.")] = "",
        index: str = "",
    ) -> CallToolResult:
        """Delete documents by their ids, all or none, or by a condition."""
        condition = where or None

        def deleted(opened: Index) -> dict[str, Any]:
            count = delete_documents(opened, ids_to_delete(ids or None, condition), condition)
            return {"deleted": count, "documents": len(opened.snapshot)}

        return _answer(*await indexes.ask(index, reporting(deleted, context)))

    @server.tool(annotations=CHANGES)
    async def sync(context: Context[Any, Any], index: str = "") -> CallToolResult:
        """Bring an index up to date with its files."""
        sources = followed.get(indexes.named(index))

        def synced(opened: Index) -> dict[str, Any]:
            last = sources or last_sources(opened.path, opened.state.origins)
            added = sync_then_refit(opened, last)
            numbers = counts(added, len(opened.snapshot))
            return {name: numbers[name] for name in SYNCED} | {"notes": added.notes}

        return _answer(*await indexes.ask(index, reporting(synced, context)))


def agents_app(server: AgentsServer) -> ASGIApp:
    """Create the application of the tools; its caller checks methods, hosts and tokens.

    The server's `session_manager` must be running while it is used.
    """
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        json_response=True, stateless_http=True, transport_security=security
    )
    (route,) = app.routes  # bare: the caller's application has the path and the lifespan
    assert isinstance(route, Route)
    return route.app


def _answer(values: Mapping[str, Any], note: str = "") -> CallToolResult:
    """Return an answer as JSON on one line, without a blank note."""
    content = {"note": note, **values} if note else dict(values)
    structured = json.loads(json_of(content))  # converts dates and other values to JSON
    line = json.dumps(structured, ensure_ascii=False, separators=(",", ":"))
    return CallToolResult(content=[TextContent(text=line)], structured_content=structured)


def _passages(hits: Sequence[Hit], index: Path | None, query: str, note: str) -> CallToolResult:
    """Return an answer with the passages of hits and their files; `_file` describes `index`."""
    hits = [shown_hit(hit) for hit in hits]
    passages = [_passage(hit, query) for hit in hits]
    files = [_file(hit.metadata, index) for hit in hits]
    return _answer(_with_files(passages, files, "passages"), note)


def _passage(hit: Hit, query: str) -> dict[str, Any]:
    """Return a hit without what agents don't need, such as its score: each word costs them."""
    part = quote(query, hit, QUOTED)
    metadata = hit.metadata
    if "path" in metadata:
        metadata = {name: metadata[name] for name in metadata if name not in FILE_FACTS}
    # The last line need not be stated if it follows from the first and the number of lines.
    has_lines_of_file = part.line and part.last_line == part.line + part.text.count("\n")
    passage = {
        "id": hit.id,
        "title": _title(hit, part.text),
        "line": part.line,
        "last_line": None if has_lines_of_file else part.last_line,
        # Where lines are not known, or one is long, `fetch` reads on from this offset.
        "start": hit.start + part.start if part.line in (None, 1) else 0,
        "page": hit.page,
        "text": part.text,
        "metadata": metadata,
    }
    # Leave out blank values, and a start of 0, which is the default.
    return {name: value for name, value in passage.items() if value or name == "text"}


def _title(hit: Hit, text: str) -> str:
    """Return a hit's title and headings, without those that its id or its first line states.

    A file client_guide.md states the title Client Guide, and Reader.java the class Reader.
    """
    first_line = text.partition("\n")[0]
    names = dict.fromkeys([hit.title, *hit.headings])
    if "path" not in hit.metadata:
        stated_names = ("", hit.id, first_line)
        return " > ".join(name for name in names if name not in stated_names)

    # Headings of code are qualified names: Class, Class.method. A class is left out if one of its
    # methods is named.
    stated = _letters(f"{hit.id} {first_line}")
    new = []
    for name in names:
        parts = map(_letters, name.split("."))
        if not all(part in stated for part in parts):
            new.append(name)
    qualifiers = {name.rpartition(".")[0] for name in new}
    return " > ".join(name for name in new if name not in qualifiers)


def _letters(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return "".join(filter(str.isalnum, name.casefold()))


def _file(metadata: Mapping[str, Any], index: Path | None) -> str:
    """Return the path of a document's file; "" without a file.

    It is absolute if the file exists on the agents' machine. `index` is the folder of its index;
    None if the agents are on another machine.
    """
    path = metadata.get("path")
    file = None if index is None else file_of(path, index.absolute().parent)
    if file is not None:
        return file.as_posix()
    return path if isinstance(path, str) else ""


def _with_files(
    records: Sequence[dict[str, Any]], files: Sequence[str], name: str
) -> dict[str, Any]:
    """Return an answer with records under `name`, and the paths of their files.

    The folder of most files is stated once; only files elsewhere have their own path.

    >>> _with_files([{"id": "a.md"}, {"id": "b.md"}], ["/n/a.md", "/m/b"], "hits")
    {'folder': '/n', 'hits': [{'id': 'a.md'}, {'id': 'b.md', 'file': '/m/b'}]}
    """
    # Find the folder of most files; below it, a file's path is the document's id.
    folders = Counter[str]()
    for record, file in zip(records, files, strict=True):
        end = f"/{record['id']}"
        if file.endswith(end):
            folders[file.removesuffix(end)] += 1
    folder = max(folders, key=folders.__getitem__, default="")

    # Add the path of files elsewhere.
    placed = []
    for record, file in zip(records, files, strict=True):
        is_in_folder = not file or file == f"{folder}/{record['id']}"
        placed.append(record if is_in_folder else {**record, "file": file})
    return {"folder": folder, name: placed} if folder else {name: placed}
