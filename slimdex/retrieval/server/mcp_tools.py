"""Tools of the Model Context Protocol with short, quotable answers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from slimdex.errors import InputError, SlimdexError
from slimdex.retrieval import commands

from ..documents import Document, Hit, ids_to_delete, json_of, shown_hit, visible_values
from ..index import Index
from ..ingest.adding import counts
from ..ingest.writer import delete as delete_documents
from ..quality.refitting import add_documents_then_refit, sync_then_refit
from ..search.answer import related as related_to
from ..search.excerpts import nearest_by_words
from ..search.places import file_of
from ..search.request import SearchRequest
from ..sources.source_request import AnySources, added_sources
from .column_facts import column_facts
from .limits import Limits
from .line_ranges import read_lines

T = TypeVar("T")
Function = Callable[..., Awaitable[CallToolResult]]
QUOTED = 1200
"""Characters of a passage in an answer."""
READ = 8000
READ_TOGETHER = 24_000
"""Characters of a document, and of several together, returned per call."""
MOST_HITS = 50
FILE_FACTS = ("path", "folder", "modified", "kind", "language", "pages", "front_matter")
"""Columns about a document's file, which `get` and `fetch` return but hits omit."""
SYNCED = ("added", "changed", "deleted", "unchanged", "documents")
"""Counts of a sync that agents get."""
ID_DIGITS = 16
"""Length of an id made of a document's content."""
READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)
INSTRUCTIONS = (
    "Search documents by meaning: ask in whole phrases. `search` returns passages to quote, `get` "
    "and `fetch` the document around them, `related` similar documents. `add`, `delete` and "
    "`sync`, if offered, change an index for all users. Indexes: "
)

Id = Annotated[str, Field(coerce_numbers_to_str=True, description="Id of a document.")]
Ids = Annotated[list[Id], Field(description="Ids of documents, all of them known.")]
Limit = Annotated[int, Field(ge=1, le=MOST_HITS)]
Query = Annotated[str, Field(max_length=Limits.text, description="A phrase or question.")]
Where = Annotated[str, Field(description="SQL condition on the columns of `info`.")]
Glob = Annotated[list[str], Field(description="Only files whose path matches one: `*.py`.")]
Regex = Annotated[str, Field(description="Only documents whose text this matches (RE2).")]
Start = Annotated[int, Field(ge=0, description="Offset of the first character.")]


class LineRange(BaseModel):
    """Lines of a document to read: those of its file, or of its text if these are not known."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    id: str = Field(description="Id of a document, or path of its file.")
    line: int = Field(1, ge=1, description="First line.")
    last_line: int = Field(0, ge=0, description="Last line; 0: to the end.")


class NewDocument(BaseModel):
    """A document to add."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    text: str
    id: str = Field("", description="Made of the content if omitted.")
    title: str = ""
    metadata: dict[str, Any] = Field({}, description="Values of columns, for `where`.")

    def as_document(self) -> Document:
        """Return the document to add.

        A missing id becomes a digest of the content, so that the same content is added only once.
        """
        content = json_of(self.model_dump(), ensure_ascii=True).encode()
        id = self.id or sha256(content).hexdigest()[:ID_DIGITS]
        return Document(id, self.text, self.title, self.metadata)


class Run(Protocol):
    """Function that runs a command on an index."""

    def __call__(self, name: str, command: Callable[[Index], T], where: str | None) -> Awaitable[T]:
        """Run it on the index of a name; with the command's condition, which may take long."""


@dataclass(frozen=True)
class Tools:
    """The tools, over indexes that agents name; the only one needs no name.

    Attributes
    ----------
    remark : says what an answer of an index lacks, or "".
    sources : what `sync` reads in place of the sources that were added, by name of an index.
    folders : the indexes' folders, for paths of files, if the agents are on this machine.
    """

    names: Collection[str]
    run: Run
    remark: Callable[[str], Awaitable[str]] | None = None
    sources: Mapping[str, AnySources] = field(default_factory=dict)
    folders: Mapping[str, Path] = field(default_factory=dict)

    async def search(
        self,
        query: Query,
        index: str = "",
        limit: Limit = 5,
        where: Where = "",
        glob: Glob = [],  # noqa: B006, a default in the schema
        regex: Regex = "",
    ) -> CallToolResult:
        """Find the passages closest in meaning to a query, best first, with id and line."""
        options: dict[str, Any] = {"where": where or None, "glob": glob, "regex": regex or None}
        request = SearchRequest(texts=[query], limit=limit, **options)
        command = partial(commands.search, request=request)
        result, remark = await self._ask(index, command, request.condition)
        (hits,) = result.hits
        notes = [remark, result.unfinished]
        return self._passages(index, hits, query, " ".join(filter(None, notes)))

    async def related(
        self, id: Id, index: str = "", limit: Limit = 5, where: Where = ""
    ) -> CallToolResult:
        """Find the documents closest in meaning to a document, each by its closest passage."""
        condition = where or None

        def nearest(opened: Index) -> list[Hit]:
            return opened.read(related_to, commands.id_of(opened, id), limit, condition)

        hits, remark = await self._ask(index, nearest, condition)
        return self._passages(index, hits, "", remark)

    async def get(
        self,
        documents: Annotated[list[LineRange], Field(min_length=1, max_length=MOST_HITS)],
        index: str = "",
    ) -> CallToolResult:
        """Read lines of documents, several at once."""
        ranges = [(each.id, each.line, each.last_line or None) for each in documents]
        longest = min(READ, READ_TOGETHER // len(ranges))
        command = partial(read_lines, ranges=ranges, longest=longest)
        parts, remark = await self._ask(index, command)
        return _answer({"documents": parts}, remark)

    async def fetch(self, id: Id, index: str = "", start: Start = 0) -> CallToolResult:
        """Read a document, some thousand characters at a time."""
        document, remark = await self._ask(index, partial(commands.fetch, id=id))
        part = {
            "id": document.id,
            "title": document.title,
            "text": document.text[start : start + READ],
            "start": start,
            "characters": len(document.text),
            "metadata": visible_values(document.metadata),
        }
        return _answer(part, remark)

    async def info(self, index: str = "") -> CallToolResult:
        """Describe an index: number of documents, and the columns that `where` may use."""

        def describe(opened: Index) -> dict[str, Any]:
            spec = opened.state.encoder
            return {
                "name": self._named(index),
                "documents": len(opened.snapshot),
                "encoder": Path(spec.get("model") or spec["type"]).name,
                "columns": column_facts(opened.store),
            }

        return _answer(*await self._ask(index, describe))

    async def add(
        self, documents: Annotated[list[NewDocument], Field(min_length=1)], index: str = ""
    ) -> CallToolResult:
        """Add documents, all or none; each replaces the document of the same id."""
        new = [each.as_document() for each in documents]

        def put(opened: Index) -> dict[str, Any]:
            done = add_documents_then_refit(opened, new)
            return {
                "ids": [each.id for each in new],
                "added": done.documents,
                "replaced": done.replaced,
                "unchanged": done.unchanged,
                "documents": len(opened.snapshot),
                "notes": done.notes,
            }

        return _answer(*await self._ask(index, put))

    async def delete(
        self,
        ids: Ids = [],  # noqa: B006, a default in the schema
        where: Annotated[str, Field(description="Or a condition, as in `search`.")] = "",
        index: str = "",
    ) -> CallToolResult:
        """Delete documents by their ids, all or none, or by a condition."""
        condition = where or None
        chosen = ids_to_delete(ids or None, condition)

        def remove(opened: Index) -> dict[str, Any]:
            count = delete_documents(opened, chosen, condition)
            return {"deleted": count, "documents": len(opened.snapshot)}

        return _answer(*await self._ask(index, remove))

    async def sync(self, index: str = "") -> CallToolResult:
        """Bring an index up to date with its files."""

        def read_again(opened: Index) -> dict[str, Any]:
            sources = self.sources.get(self._named(index))
            known = sources or added_sources(opened.path, opened.state.origins)
            report = sync_then_refit(opened, known)
            numbers = counts(report, len(opened.snapshot))
            return {name: numbers[name] for name in SYNCED} | {"notes": report.notes}

        return _answer(*await self._ask(index, read_again))

    async def _ask(
        self, name: str, command: Callable[[Index], T], where: str | None = None
    ) -> tuple[T, str]:
        """Run a command on an index; return its result, and a remark on what that lacks or ""."""
        index = self._named(name)
        remark = await self.remark(index) if self.remark else ""
        return await self.run(index, command, where), remark

    def _named(self, name: str) -> str:
        """Return a known name, or the only one for ""; raises `InputError` for an unknown name."""
        if not name and len(self.names) == 1:
            (name,) = self.names
        if name not in self.names:
            raise InputError(f"index {name!r}; expected one of: {', '.join(self.names)}")
        return name

    def _passages(self, name: str, hits: Sequence[Hit], query: str, note: str) -> CallToolResult:
        """Return an answer with the passages of hits."""
        folder = self.folders.get(self._named(name))
        return _answer({"passages": [_passage(hit, query, folder) for hit in hits]}, note)


def agents_server(tools: Tools, *, write: bool = False) -> MCPServer[Any]:
    """Create a server of the tools; those that change an index only if `write`."""
    reading: list[Function] = [tools.search, tools.related, tools.get, tools.fetch, tools.info]
    changing: list[Function] = [tools.add, tools.delete, tools.sync] if write else []
    return MCPServer(
        ", ".join(tools.names) or "slimdex",
        instructions=INSTRUCTIONS + ", ".join(tools.names),
        version=version("slimdex"),
        tools=[_strict(each, READS) for each in reading]
        + [_strict(each, CHANGES) for each in changing],
        log_level="WARNING",
    )


def _strict(function: Function, annotations: ToolAnnotations) -> Tool:
    """Make a tool that refuses unknown arguments, and whose errors agents get to read."""

    @wraps(function)
    async def run(**arguments: Any) -> CallToolResult:
        try:
            return await function(**arguments)
        except (SlimdexError, OSError) as error:
            raise ToolError(str(error)) from error

    tool = Tool.from_function(run, annotations=annotations)
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    tool.parameters = model.model_json_schema()
    return tool


def _answer(values: Mapping[str, Any], note: str = "") -> CallToolResult:
    """Return an answer as JSON on one line, without a blank note."""
    line = json_of({"note": note, **values} if note else dict(values))
    return CallToolResult(content=[TextContent(text=line)], structured_content=json.loads(line))


def _passage(hit: Hit, query: str, folder: Path | None) -> dict[str, Any]:
    """Return a hit without what agents don't need, such as its score: each word costs them.

    `folder` is the index's, if the agents are on this machine.
    """
    part = nearest_by_words(query, hit, QUOTED)
    path = hit.metadata.get("path")
    file = None if folder is None else file_of(path, folder.absolute().parent)
    metadata = shown_hit(hit).metadata
    if path is not None:
        metadata = {name: metadata[name] for name in metadata if name not in FILE_FACTS}
    passage = {
        "id": hit.id,
        "title": " > ".join(dict.fromkeys(filter(None, [hit.title, *hit.headings]))),
        "file": path if file is None else file.as_posix(),
        "line": part.line,
        "last_line": part.last_line,
        "start": hit.start + part.start,
        "page": part.page,
        "last_page": part.last_page,
        "text": part.text,
        "metadata": metadata,
    }
    return {name: value for name, value in passage.items() if value or name == "text"}
