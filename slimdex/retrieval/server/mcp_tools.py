"""Tools of the Model Context Protocol with short, quotable answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any

from mcp import MCPError
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import (
    DEFAULT_MAX_REQUEST_BODY_SIZE,
    RequestBodyLimitMiddleware,
    TransportSecuritySettings,
)
from mcp.types import INVALID_PARAMS, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from slimdex.indexes.errors import SlimdexError
from slimdex.indexes.execution.progress import listening
from slimdex.retrieval import commands

from ..commands import Command
from ..documents import Hit, hit_from_json, hit_json
from ..search.excerpts import are_by_chance, quoted
from ..search.places import file_of, link_of
from ..search.request import SearchRequest, narrowed
from ..sources.asked_sources import AskedSources
from ..store.columns import column_facts
from .json_rpc import checked_messages, checked_stdio
from .limits import Limits
from .routes.bodies import Named
from .routes.failures import first_line, unknown

Do = Callable[[str, Command, str | None], Awaitable[dict[str, Any]]]
"""Runs a command on the index of a name; with the command's condition, which may take long.

The result may have a "remark" on what it lacks.
"""
Asked = Callable[..., Awaitable[dict[str, Any]]]
"""The same for the name that an agent gives, or None; raises `ToolError`."""
QUOTED = 1200
"""Characters of a passage in an answer."""
READ, READ_TOGETHER = 8000, 24_000
"""Characters of a document, and of several together, returned per call."""
MOST_HITS, LONGEST_QUERY = 50, Limits.text
"""Largest limit of a search, and most characters of its query."""
BY_CHANCE = "The best passage is no closer than a random document."
READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

IndexName = Annotated[
    str | None, Field(description="Name of the index; optional if there is only one.")
]
Limit = Annotated[int, Field(ge=1, le=MOST_HITS)]
Where = Annotated[
    str | None, Field(description="A condition in SQL on the columns that `info` lists.")
]


class Noted(BaseModel):
    """An answer that may lack something."""

    note: str = Field("", description="A remark, such as that recent changes are missing.")


class Placed(BaseModel):
    """A document's file, and where to see it."""

    file: str | None = Field(description="Path of its file, if it is from one.")
    link: str | None = Field(description="URL of its page, or of its file on this machine.")


class Passage(Placed):
    """A passage found by a search."""

    id: str = Field(description="Id of its document, for fetch and get.")
    title: str
    text: str
    score: float = Field(description="A cosine: higher is nearer.")
    found_by: str = Field(description="meaning, words, both, or name.")
    start: int = Field(description="Offset of the text in the document, in characters.")
    line: int | None = Field(
        description="Line of the file in which the text begins, from 1; null where lines are not "
        "known, as in a PDF or a web page: fetch reads from `start`."
    )
    last_line: int | None = Field(description="Line of the file in which the text ends.")
    page: int | None
    headings: list[str]
    metadata: dict[str, Any]


class Passages(Noted):
    """Passages, best first."""

    passages: list[Passage]


class Text(Noted):
    """A document, or a part of it."""

    id: str
    title: str
    text: str
    start: int
    characters: int = Field(description="Length of the whole document.")
    metadata: dict[str, Any]


class LineRange(Named):
    """Lines of a document to read: those of its file, or of its text if these are not known."""

    id: str | int = Field(description="Id of a document, from a search, or the path of its file.")
    line: int = Field(1, ge=1, description="First line, from 1.")
    last_line: int | None = Field(None, ge=1, description="Last line; by default the end.")


class LinesRead(Placed):
    """Lines of a document; fewer than asked for if they are long."""

    id: str
    title: str
    text: str
    line: int = Field(description="The first line here.")
    last_line: int = Field(description="The last line here; if lines are missing, ask again.")
    lines: int = Field(description="The last line of the whole document.")
    start: int = Field(description="Offset of the text in the document, in characters.")
    metadata: dict[str, Any]


class DocumentsRead(Noted):
    """The lines of each document, in the order asked for."""

    documents: list[LinesRead]


class About(Noted):
    """Facts about an index."""

    name: str
    documents: int
    columns: list[dict[str, Any]] = Field(description="Columns that `where` may use, with values.")
    encoder: str


class NewDocument(Named):
    """A document to add."""

    text: str
    id: str | int | None = Field(
        None, description="Replaces the document of this id; made of the content if omitted."
    )
    title: str = ""
    metadata: dict[str, Any] = Field({}, description="Values of columns, for `where`.")


class Changed(BaseModel):
    """A committed addition."""

    ids: list[str] = Field(description="Ids of the documents, in order.")
    added: int
    replaced: int = Field(description="Number of these that replaced an older document.")
    unchanged: int
    documents: int = Field(description="Documents in the index.")
    notes: list[str]


class Synced(BaseModel):
    """A committed sync with files."""

    added: int
    changed: int
    moved: int
    deleted: int
    unchanged: int
    documents: int = Field(description="Documents in the index.")
    notes: list[str]


class Deleted(BaseModel):
    """A committed deletion."""

    deleted: int
    documents: int = Field(description="Documents left in the index.")


class AgentsServer(MCPServer[Any]):
    """A server that answers every request, also wrong ones, and whose errors are one line."""

    async def call_tool(self, name: str, arguments: dict[str, Any], *context: Any) -> Any:
        """Run a tool; raises `ToolError`."""
        await self._check_names(name, arguments)
        try:
            return await super().call_tool(name, arguments, *context)
        except ToolError as error:
            if not isinstance(invalid := error.__cause__, ValidationError):
                raise
            first, *others = invalid.errors()
            placed = {**first, "loc": ("arguments", *first["loc"])}
            raise ToolError(first_line([placed, *others])) from error

    async def _check_names(self, name: str, arguments: dict[str, Any]) -> None:
        """Raise `ToolError` for an unknown tool or argument, which would be ignored."""
        tools = {tool.name: tool for tool in await self.list_tools()}
        if name not in tools:
            raise ToolError(f"tool {unknown(name, tools)}")
        known = tools[name].input_schema.get("properties", {})
        for argument in arguments:
            if argument not in known:
                raise ToolError(f"{name}: argument {unknown(argument, known)}")

    async def get_prompt(self, name: str, *others: Any) -> Any:
        """Refuse: there are no prompts."""
        raise MCPError(
            INVALID_PARAMS, f"prompt {name[:100]!r}; expected none: there are no prompts"
        )

    def streamable_http_app(self, **options: Any) -> Starlette:
        """Make the application of the streamable HTTP transport."""
        app = super().streamable_http_app(**options)
        for route in app.routes:
            assert isinstance(route, Route)
            route.app = RequestBodyLimitMiddleware(
                checked_messages(route.app), DEFAULT_MAX_REQUEST_BODY_SIZE
            )
        return app

    async def run_stdio_async(self) -> None:
        """Serve over stdin and stdout."""
        self.streamable_http_app()  # of which the session manager has the server
        server = self.session_manager.app
        async with checked_stdio() as (messages, answers):
            await server.run(messages, answers, server.create_initialization_options())


def agents_server(
    names: Collection[str],
    read: Do,
    change: Do | None = None,
    *,
    followed: Mapping[str, AskedSources] | None = None,
    places: Mapping[str, Path] | None = None,
) -> AgentsServer:
    """Create a server with tools over indexes.

    They are search, related, get, fetch and info, and with `change` add, delete and sync; the names
    of indexes may change. `followed` are sources to sync with in place of those of the last sync;
    `places` the indexes' folders, for links to files, if the agents are on this machine.
    """
    about = "`add`, `delete` and `sync` change them for all users. " if change else ""
    server = AgentsServer(
        "slimdex",
        instructions="Search documents by meaning: ask in whole phrases. `search` returns passages "
        "to quote, `get` and `fetch` the document around them, `related` similar documents. "
        f"{about}Indexes: {', '.join(names)}.",
        version=version("slimdex"),
        log_level="WARNING",
    )
    asked = partial(_asked, names, read)
    _add_searches(server, asked, places or {})
    _add_readers(server, asked, places or {})
    if change is not None:
        _add_writers(server, names, change, followed or {})
    return server


def _add_searches(server: AgentsServer, asked: Asked, places: Mapping[str, Path]) -> None:
    @server.tool(annotations=READS)
    async def search(
        query: Annotated[
            str,
            Field(
                max_length=LONGEST_QUERY, description="The search query, as a phrase or question."
            ),
        ],
        index: IndexName = None,
        limit: Limit = 5,
        where: Where = None,
        glob: Annotated[
            list[str] | None, Field(description="Only files with a path like one of these: *.py")
        ] = None,
        regex: Annotated[
            str | None, Field(description="Only documents whose text this matches (RE2).")
        ] = None,
    ) -> Passages:
        """Find the passages closest in meaning to a query."""
        request = SearchRequest(
            texts=[query], limit=limit, where=narrowed(where, glob or (), regex)
        )
        found = await asked(index, partial(commands.search, request=request), request.where)
        hits = [hit_from_json(hit) for hit in found["hits"][0]]
        is_chance = bool(hits) and are_by_chance(hits, found["chance_score"], query)
        note = " ".join(filter(None, (found.get("remark"), BY_CHANCE if is_chance else "")))
        return _passages(hits, places.get(found["index"]), query, note)

    @server.tool(annotations=READS)
    async def related(
        id: Annotated[str | int, Field(description="Id of a document, from a search.")],
        index: IndexName = None,
        limit: Limit = 5,
        where: Where = None,
    ) -> Passages:
        """Find the documents closest in meaning to a document, each by its closest passage."""
        command = partial(commands.related, id=str(id), limit=limit, where=where)
        found = await asked(index, command, where)
        hits = [*map(hit_from_json, found["hits"])]
        return _passages(hits, places.get(found["index"]), "", found.get("remark", ""))


def _add_readers(server: AgentsServer, asked: Asked, places: Mapping[str, Path]) -> None:
    @server.tool(annotations=READS)
    async def get(
        documents: Annotated[list[LineRange], Field(min_length=1, max_length=MOST_HITS)],
        index: IndexName = None,
    ) -> DocumentsRead:
        """Read lines of documents, several at once."""
        lines = [(str(each.id), each.line, each.last_line) for each in documents]
        longest = min(READ, READ_TOGETHER // len(lines))
        found = await asked(index, partial(commands.read_lines, asked=lines, longest=longest))
        place = places.get(found["index"])
        for read in found["documents"]:
            first = Hit(read["id"], 0, read["text"], metadata=read["metadata"], line=read["line"])
            read |= _placed(first, place)
        return DocumentsRead.model_validate(found | {"note": found.get("remark", "")})

    @server.tool(annotations=READS)
    async def fetch(
        id: Annotated[str | int, Field(description="Id of a document, from a search.")],
        index: IndexName = None,
        start: Annotated[int, Field(ge=0, description="Offset of the first character.")] = 0,
    ) -> Text:
        """Read a document, some thousand characters at a time."""
        found = await asked(index, partial(commands.fetch, id=str(id)))
        text = found["text"]
        part = {"text": text[start : start + READ], "start": start, "characters": len(text)}
        return Text.model_validate(found | part | {"note": found.get("remark", "")})

    @server.tool(annotations=READS)
    async def info(index: IndexName = None) -> About:
        """Describe an index: number of documents, and columns that conditions may use."""
        facts = await asked(
            index, lambda found: found.info() | {"columns": column_facts(found.index.store)}
        )
        spec = facts["encoder"]
        encoder = PureWindowsPath(spec.get("model") or spec["type"]).name
        own = {"name": facts["index"], "encoder": encoder, "note": facts.get("remark", "")}
        return About.model_validate(facts | own)


def _add_writers(
    server: AgentsServer, names: Collection[str], change: Do, followed: Mapping[str, AskedSources]
) -> None:
    asked = partial(_asked, names, change)

    @server.tool(annotations=CHANGES)
    async def add(
        documents: Annotated[list[NewDocument], Field(min_length=1)], index: IndexName = None
    ) -> Changed:
        """Add documents, all or none; each replaces the document of the same id."""
        put = partial(commands.put, documents=[each.model_dump() for each in documents])
        return Changed.model_validate(await asked(index, put))

    @server.tool(annotations=CHANGES)
    async def delete(
        ids: Annotated[
            list[str | int] | None, Field(description="Ids of documents, all of them known.")
        ] = None,
        where: Annotated[
            str | None, Field(description="Or a condition in SQL, as in `search`.")
        ] = None,
        index: IndexName = None,
    ) -> Deleted:
        """Delete documents, either by their ids, all or none, or by a condition."""
        deleted = partial(commands.delete, ids=ids, where=where)
        return Deleted.model_validate(await asked(index, deleted))

    @server.tool(annotations=CHANGES)
    async def sync(index: IndexName = None) -> Synced:
        """Bring an index up to date with the files that it follows or was last synced with."""
        synced = partial(commands.sync, sources=followed.get(_known(names, index)))
        notes = list[str]()
        with listening(note=notes.append):
            found = await asked(index, synced)
        return Synced.model_validate(found | {"notes": notes})


def _known(names: Collection[str], name: str | None) -> str:
    """Return the name that an agent gives, or the only one; raises `ToolError`."""
    if name is None and len(names) == 1:
        (name,) = names
    if name is None or name not in names:
        raise ToolError(f"index {unknown(str(name), names)}")
    return name


async def _asked(
    names: Collection[str], do: Do, index: str | None, command: Command, where: str | None = None
) -> dict[str, Any]:
    name = _known(names, index)
    try:
        return await do(name, command, where) | {"index": name}
    except (SlimdexError, OSError) as error:
        raise ToolError(" ".join(str(error).split())) from error


def agents_app(server: MCPServer[Any]) -> ASGIApp:
    """Create the application of the tools, for POSTs; hosts and tokens must be checked before it.

    The server's `session_manager` must be running while it is used.
    """
    own = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        json_response=True, stateless_http=True, transport_security=own
    )
    (route,) = app.routes
    assert isinstance(route, Route)
    return route.app


def _passages(hits: Sequence[Hit], index: Path | None, query: str, note: str) -> Passages:
    passages = [_quoted(hit, index, query) for hit in hits]
    return Passages.model_validate({"passages": passages, "note": note})


def _quoted(hit: Hit, index: Path | None, query: str) -> dict[str, Any]:
    """A hit's passage, or the part of it with the query's words, and its place."""
    part = quoted(query, hit, QUOTED)
    own = replace(
        hit,
        text=part.text,
        start=hit.start + part.start,
        line=part.line,
        last_line=part.last_line,
    )
    return hit_json(own) | _placed(own, index)


def _placed(hit: Hit, index: Path | None) -> dict[str, Any]:
    """Return a hit's "file" and "link"; the file is absolute if it exists on the agents' machine.

    `index` is the folder of its index; None if the agents are on another machine.
    """
    path = hit.metadata.get("path")
    file = None if index is None else file_of(path, index.absolute().parent)
    said = str(file or path) if file or isinstance(path, str) else None
    return {"file": said, "link": link_of(hit, file)}
