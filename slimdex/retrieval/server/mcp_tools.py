"""Tools of the Model Context Protocol with short, quotable answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from inspect import Parameter, signature
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BeforeValidator, Field
from starlette.routing import Route
from starlette.types import ASGIApp

from slimdex.retrieval import changes, commands
from slimdex.system.progress import listening

from ..commands import Command
from ..documents import Hit, id_text, json_of
from ..index import Index
from ..quality.info import facts as facts_of
from ..search.excerpts import are_by_chance, quoted
from ..search.options import SearchOptions, options_of
from ..search.places import file_of
from ..search.request import SearchRequest
from ..sources.source_request import SourceRequest
from ..store.columns import column_facts
from .agents_server import AgentsServer, Argument, is_blank, reporting
from .limits import Limits
from .routes.bodies import in_json
from .routes.failures import unknown

Do = Callable[[str, Command, str | None], Awaitable[dict[str, Any]]]
"""Runs a command on the index of a name; with the command's condition, which may take long.

The result may have a "remark" on what it lacks.
"""
Ask = Callable[..., Awaitable[dict[str, Any]]]
"""The same for the name that an agent gives, or ""."""
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
READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


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


def agents_server(
    names: Collection[str],
    read: Do,
    change: Do | None = None,
    *,
    followed: Mapping[str, SourceRequest] | None = None,
    places: Mapping[str, Path] | None = None,
) -> AgentsServer:
    """Create a server with tools over indexes.

    They are search, related, get, fetch and info, and with `change` add, delete and sync; the names
    of indexes may change. `followed` are sources to sync with in place of those of the last sync;
    `places` the indexes' folders, for the paths of files, if the agents are on this machine.
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
    ask = partial(_run, names, read)
    _add_searches(server, ask, places or {})
    _add_readers(server, ask, places or {})
    if change is not None:
        _add_writers(server, names, change, followed or {})
    return server


def with_options(options: type[SearchOptions], tool: Tool) -> Tool:
    """Give a tool that has `**options` the options of a search that agents are offered."""
    original = signature(tool, eval_str=True)
    parameters = [each for each in original.parameters.values() if each.kind != each.VAR_KEYWORD]
    for name, option in options_of(options).items():
        if option.agents is None:
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


def _add_searches(server: AgentsServer, ask: Ask, places: Mapping[str, Path]) -> None:
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
        answer = await ask(index, partial(commands.search, request=request), request.condition)
        (hits,) = answer["hits"]
        is_chance = bool(hits) and are_by_chance(hits, answer["chance_score"], query)
        notes = [answer.get("remark"), answer["unfinished"], BY_CHANCE if is_chance else ""]
        note = " ".join(filter(None, notes))
        return _passages(hits, places.get(answer["index"]), query, note)

    @server.tool(annotations=READS)
    async def related(
        id: Annotated[Id, Field(description="Id of a document.")],
        index: str = "",
        limit: Limit = 5,
        where: Where = "",
    ) -> CallToolResult:
        """Find the documents closest in meaning to a document, each by its closest passage."""
        condition = where or None
        command = partial(commands.related, id=id, limit=limit, where=condition)
        answer = await ask(index, command, condition)
        return _passages(answer["hits"], places.get(answer["index"]), "", answer.get("remark", ""))


def _add_readers(server: AgentsServer, ask: Ask, places: Mapping[str, Path]) -> None:
    @server.tool(annotations=READS)
    async def get(
        documents: Annotated[list[LineRange], Field(min_length=1, max_length=MOST_HITS)],
        index: str = "",
    ) -> CallToolResult:
        """Read lines of documents, several at once."""
        ranges = [(each.id, each.line, each.last_line or None) for each in documents]
        longest = min(READ, READ_TOGETHER // len(ranges))
        answer = await ask(index, partial(commands.read_lines, ranges=ranges, longest=longest))
        excerpts = answer["documents"]
        files = [_file(each["metadata"], places.get(answer["index"])) for each in excerpts]
        return _answer(_with_files(excerpts, files, "documents"), answer.get("remark", ""))

    @server.tool(annotations=READS)
    async def fetch(
        id: Annotated[Id, Field(description="Id of a document.")],
        index: str = "",
        start: Annotated[int, Field(ge=0, description="Offset of the first character.")] = 0,
    ) -> CallToolResult:
        """Read a document, some thousand characters at a time."""
        document = await ask(index, partial(commands.fetch, id=id))
        text = document["text"]
        part = {
            "id": document["id"],
            "title": document["title"],
            "text": text[start : start + READ],
            "start": start,
            "characters": len(text),
            "metadata": document["metadata"],
        }
        return _answer(part, document.get("remark", ""))

    @server.tool(annotations=READS)
    async def info(index: str = "") -> CallToolResult:
        """Describe an index: number of documents, and the columns that `where` may use."""

        def described(opened: Index) -> dict[str, Any]:
            return opened.read(facts_of) | {"columns": column_facts(opened.store)}

        facts = await ask(index, described)
        spec = facts["encoder"]
        encoder = PureWindowsPath(spec.get("model") or spec["type"]).name
        summary = {"name": facts["index"], "documents": facts["documents"], "encoder": encoder}
        return _answer(summary | {"columns": facts["columns"]}, facts.get("remark", ""))


def _add_writers(
    server: AgentsServer, names: Collection[str], change: Do, followed: Mapping[str, SourceRequest]
) -> None:
    ask = partial(_run, names, change)

    @server.tool(annotations=CHANGES)
    async def add(
        documents: Annotated[list[NewDocument], Field(min_length=1)],
        context: Context[Any, Any],
        index: str = "",
    ) -> CallToolResult:
        """Add documents, all or none; each replaces the document of the same id."""
        values = [each.model_dump() | {"id": each.id or None} for each in documents]
        put = partial(changes.put, documents=values)
        answer = await ask(index, reporting(put, context))
        counts = ("ids", "added", "replaced", "unchanged", "documents", "notes")
        return _answer({name: answer[name] for name in counts})

    @server.tool(annotations=CHANGES)
    async def delete(
        context: Context[Any, Any],
        ids: Annotated[list[Id], Field(description="Ids of documents, all of them known.")] = [],  # noqa: B006, a default in the schema
        where: Annotated[str, Field(description="Or a condition, as in `search`.")] = "",
        index: str = "",
    ) -> CallToolResult:
        """Delete documents by their ids, all or none, or by a condition."""
        command = partial(changes.delete, ids=ids or None, where=where or None)
        answer = await ask(index, reporting(command, context))
        return _answer({name: answer[name] for name in ("deleted", "documents")})

    @server.tool(annotations=CHANGES)
    async def sync(context: Context[Any, Any], index: str = "") -> CallToolResult:
        """Bring an index up to date with its files."""
        command = partial(changes.sync, sources=followed.get(_known(names, index)))
        notes = list[str]()
        with listening(note=notes.append):
            answer = await ask(index, reporting(command, context))
        counts = ("added", "changed", "moved", "deleted", "unchanged", "documents")
        return _answer({name: answer[name] for name in counts} | {"notes": notes})


def _known(names: Collection[str], name: str) -> str:
    """Return the name that an agent gives, or the only one; raises `ToolError`."""
    if not name and len(names) == 1:
        (name,) = names
    if not name:
        expected = f"one of {', '.join(names)}" if names else "one, but this service has none"
        raise ToolError(f"no index named; expected {expected}")
    if name not in names:
        raise ToolError(f"index {unknown(name, names)}")
    return name


async def _run(
    names: Collection[str], do: Do, index: str, command: Command, where: str | None = None
) -> dict[str, Any]:
    name = _known(names, index)
    return await do(name, command, where) | {"index": name}


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
    """An answer as JSON on one line, without a blank note."""
    said = values if not note else {"note": note, **values}
    structured = json.loads(json_of(dict(said)))
    line = json.dumps(structured, ensure_ascii=False, separators=(",", ":"))
    return CallToolResult(content=[TextContent(text=line)], structured_content=structured)


def _passages(hits: Sequence[Hit], index: Path | None, query: str, note: str) -> CallToolResult:
    passages = [_passage(hit, query) for hit in hits]
    files = [_file(hit.metadata, index) for hit in hits]
    return _answer(_with_files(passages, files, "passages"), note)


def _passage(hit: Hit, query: str) -> dict[str, Any]:
    """A hit without what agents don't need, since they pay for each word: scores, for instance."""
    part = quoted(query, hit, QUOTED)
    metadata = hit.metadata
    if "path" in metadata:
        metadata = {name: metadata[name] for name in metadata if name not in FILE_FACTS}
    # Where a quote has the lines of its file, the first one tells the last.
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
    return {name: value for name, value in passage.items() if value or name == "text"}


def _title(hit: Hit, text: str) -> str:
    """A hit's title and headings, without those that its id or its first line states.

    A file client_guide.md states the title Client Guide, and Reader.java the class Reader.
    """
    first_line = text.partition("\n")[0]
    names = dict.fromkeys([hit.title, *hit.headings])
    if "path" not in hit.metadata:
        return " > ".join(name for name in names if name and name not in (hit.id, first_line))
    stated = _letters(f"{hit.id} {first_line}")
    # Headings of code are qualified names: Class, Class.method.
    new = [name for name in names if any(_letters(part) not in stated for part in name.split("."))]
    qualifiers = {name.rpartition(".")[0] for name in new}
    return " > ".join(name for name in new if name not in qualifiers)


def _letters(name: str) -> str:
    """The letters and digits of a name, in lower case."""
    return "".join(filter(str.isalnum, name.casefold()))


def _file(metadata: Mapping[str, Any], index: Path | None) -> str:
    """Path of a document's file, absolute if it exists on the agents' machine; "" without a file.

    `index` is the folder of its index; None if the agents are on another machine.
    """
    path = metadata.get("path")
    file = None if index is None else file_of(path, index.absolute().parent)
    if file is not None:
        return file.as_posix()
    return path if isinstance(path, str) else ""


def _with_files(
    records: Sequence[dict[str, Any]], files: Sequence[str], name: str
) -> dict[str, Any]:
    """An answer with records, and their files: most are in one folder, whose path is stated once.

    >>> _with_files([{"id": "a.md"}, {"id": "b.md"}], ["/n/a.md", "/m/b"], "hits")
    {'folder': '/n', 'hits': [{'id': 'a.md'}, {'id': 'b.md', 'file': '/m/b'}]}
    """
    ids = [f"/{each['id']}" for each in records]
    pairs = [*zip(files, ids, strict=True)]
    folders = Counter(file.removesuffix(id) for file, id in pairs if file.endswith(id))
    folder = max(folders, key=folders.__getitem__, default="")
    placed = [
        each if not file or file == folder + id else {**each, "file": file}
        for each, (file, id) in zip(records, pairs, strict=True)
    ]
    return {"folder": folder, name: placed} if folder else {name: placed}
