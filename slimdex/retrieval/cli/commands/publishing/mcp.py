"""`slimdex mcp`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from slimdex.indexes.errors import InputError

from ...execution import Index
from ...options.opening import Dirs, Model, OpenOptions, WriteOptions

if TYPE_CHECKING:
    from slimdex.retrieval.commands import Command


def mcp(
    indexes: Dirs,
    *,
    write: Annotated[bool, "Add the tools add, delete and sync."] = False,
    sync: Annotated[
        list[str] | None,
        "SOURCE",
        "A folder or file to follow: before an answer, what has changed in it is read, for up to "
        "a second; can be repeated. NAME=SOURCE for one of several indexes.",
    ] = None,
    http: Annotated[bool, "Serve streamable HTTP at /mcp in place of stdin and stdout."] = False,
    port: Annotated[int, "With --http: the port; 0 takes a free one."] = 8001,
    model: Model = None,
    writing: WriteOptions,
) -> None:
    """Give agents the tools search, related, get, fetch and info, over the Model Context Protocol.

    Any number of processes may serve and change an index: answers contain what others have
    committed by then, and changes take turns.
    """
    from slimdex.retrieval.server.service import named_places

    places, opening = named_places(indexes), OpenOptions(model)
    opened = {name: Index(place, opening, writing) for name, place in places.items()}
    for at in opened.values():  # errors are for the user to see now, not for the agent later
        collection = at.opened()
        if write or sync:
            collection.check_writable()
    followed = _followed(sync or [], [*places])
    _serve(opened, followed, write=write, port=port if http else None)


def _followed(words: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Return the sources that each index follows, as absolute paths.

    Raises `InputError` if a word is not SOURCE or NAME=SOURCE, or there is no such file or folder.
    """
    followed = dict[str, list[str]]()
    for word in words:
        name, _, source = word.partition("=")
        if not source or Path(word).exists():
            name, source = names[0] if len(names) == 1 else "", word
        if name not in names:
            raise InputError(f"--sync {word}; expected NAME=SOURCE, NAME one of {', '.join(names)}")
        if not Path(source).exists():
            raise InputError(f"--sync {source}: no such file or folder; expected an existing one")
        followed.setdefault(name, []).append(str(Path(source).absolute()))
    return followed


def _serve(
    opened: dict[str, Index], followed: dict[str, list[str]], *, write: bool, port: int | None
) -> None:
    """Serve the tools over stdin and stdout, or over HTTP at a port."""
    import anyio

    from slimdex.retrieval.asked_sources import AskedSources
    from slimdex.retrieval.server.freshness import Following, Freshness
    from slimdex.retrieval.server.mcp_tools import agents_server

    sources = {name: AskedSources(specs) for name, specs in followed.items()}

    def kept_fresh(name: str) -> Freshness:
        following = Following(sources[name])
        return Freshness(lambda: following.catch_up(opened[name].opened()))

    fresh = {name: kept_fresh(name) for name in sources}

    async def change(name: str, command: Command, where: str | None) -> dict[str, Any]:
        return await anyio.to_thread.run_sync(lambda: command(opened[name].opened()))

    async def read(name: str, command: Command, where: str | None) -> dict[str, Any]:
        remark = await fresh[name].remark() if name in fresh else ""
        return await change(name, command, where) | {"remark": remark}

    places = {name: index.path for name, index in opened.items()}
    server = agents_server(
        [*opened], read, change if write else None, followed=sources, places=places
    )
    if port is None:
        server.run()
    else:
        server.run("streamable-http", port=port)
