"""Agents: tools of the Model Context Protocol, with answers that are short and can be quoted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field
from starlette.routing import BaseRoute, Route

from slimdex.indexes.errors import SlimdexError

from ..commands import Columns, Command, Fetch, Info, Search
from ..search.excerpts import is_by_chance, shortened
from ..search.request import SearchRequest

Do = Callable[[str, Command], Awaitable[dict[str, Any]]]
"""What does a command with the index of a name."""
QUOTED = 1200
"""Characters of a passage that an answer has."""
READ = 8000
"""Characters of a document that are read at a time."""
MOST = 50
"""Hits that a search may ask for."""
READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

IndexName = Annotated[str | None, Field(description="Which index; not needed where there is one.")]


class Passage(BaseModel):
    """A passage that was found."""

    id: str = Field(description="Of its document, for fetch.")
    title: str
    text: str
    score: float = Field(description="A cosine: higher is nearer.")
    start: int = Field(description="Where it begins in the document, in characters.")
    page: int | None
    headings: list[str]
    metadata: dict[str, Any]


class Passages(BaseModel):
    """Passages, nearest first."""

    passages: list[Passage]
    note: str = Field("", description="What to know of them.")


class Text(BaseModel):
    """A document, or a part of it."""

    id: str
    title: str
    text: str
    start: int
    characters: int = Field(description="Of the whole document.")
    metadata: dict[str, Any]


class About(BaseModel):
    """What an index holds."""

    name: str
    documents: int
    columns: list[dict[str, Any]] = Field(description="What `where` may name, with values.")
    encoder: str


def agents_server(names: Sequence[str], do: Do) -> MCPServer[Any]:
    """A server with the tools search, fetch and info over indexes of these names."""
    server = MCPServer[Any](
        "slimdex",
        instructions="Search documents by meaning: ask in whole phrases. `search` gives passages "
        f"to quote, `fetch` the document around them. Indexes: {', '.join(names)}.",
        version=version("slimdex"),
        log_level="WARNING",
    )
    done = partial(_done, names, do)

    @server.tool(annotations=READS)
    async def search(
        query: Annotated[str, Field(description="What is looked for, in words.")],
        index: IndexName = None,
        limit: Annotated[int, Field(ge=1, le=MOST)] = 5,
        where: Annotated[
            str | None,
            Field(description="A condition on the columns that `info` tells, as SQL has it."),
        ] = None,
    ) -> Passages:
        """Find the passages nearest in meaning to a query."""
        request = SearchRequest([query], limit=limit, where=where)
        found = await done(index, Search(request))
        hits, chance = found["hits"][0], found["chance_score"]
        texts = [hits[0][name] for name in ("id", "title", "text")] if hits else []
        is_chance = bool(hits) and is_by_chance(hits[0]["score"], chance, query, *texts)
        note = "The best is no nearer than a random document would be." if is_chance else ""
        return Passages(passages=[_passage(hit) for hit in hits], note=note)

    @server.tool(annotations=READS)
    async def fetch(
        id: Annotated[str | int, Field(description="Of a document that was found.")],
        index: IndexName = None,
        start: Annotated[int, Field(ge=0, description="The first character to read.")] = 0,
    ) -> Text:
        """Read a document, some thousand characters at a time."""
        found = await done(index, Fetch(str(id)))
        return Text(
            id=found["id"],
            title=found["title"],
            text=found["text"][start : start + READ],
            start=start,
            characters=len(found["text"]),
            metadata=found["metadata"],
        )

    @server.tool(annotations=READS)
    async def info(index: IndexName = None) -> About:
        """What an index holds: how many documents, and which columns conditions may name."""
        facts, columns = await done(index, Info()), await done(index, Columns())
        return About(
            name=facts["index"],
            documents=facts["documents"],
            columns=columns["columns"],
            encoder=str(facts["encoder"].get("model", facts["encoder"]["type"])).rsplit("/")[-1],
        )

    return server


async def _done(names: Sequence[str], do: Do, name: str | None, command: Command) -> dict[str, Any]:
    if name is None and len(names) == 1:
        name = names[0]
    if name is None or name not in names:
        raise ToolError(f"index {name!r}; expected one of {', '.join(names)}")
    try:
        return await do(name, command) | {"index": name}
    except SlimdexError as error:
        raise ToolError(str(error)) from error


def agents_routes(server: MCPServer[Any]) -> list[BaseRoute]:
    """Routes of its tools at /mcp, for an application that looks at hosts and tokens itself.

    Its `session_manager` has to run beside them.
    """
    own = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        json_response=True, stateless_http=True, transport_security=own
    )
    for route in app.routes:
        assert isinstance(route, Route)
        route.methods = {"POST"}  # GET's stream has nothing to say here, and would never end
    return app.routes


def _passage(hit: dict[str, Any]) -> Passage:
    return Passage(
        id=hit["id"],
        title=hit["title"],
        text=shortened(hit["text"], QUOTED),
        score=hit["score"],
        start=hit["start"],
        page=hit["page"],
        headings=hit["headings"],
        metadata=hit["metadata"],
    )
