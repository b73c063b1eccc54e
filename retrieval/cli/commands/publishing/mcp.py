"""`slimdex mcp`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from ...execution import Index
from ...options.opening import Dirs, Model, OpenOptions, WriteOptions

if TYPE_CHECKING:
    from ....operations.commands import Command


def mcp(
    indexes: Dirs,
    *,
    write: Annotated[bool, "Add the tools add and delete."] = False,
    http: Annotated[bool, "Serve streamable HTTP at /mcp in place of stdin and stdout."] = False,
    port: Annotated[int, "With --http: the port; 0 takes a free one."] = 8001,
    model: Model = None,
    writing: WriteOptions,
) -> None:
    """Give agents the tools search, fetch and info, over the Model Context Protocol.

    Any number of processes may serve and change an index: answers contain what others have
    committed by then, and changes take turns.
    """
    import anyio

    from ....server.mcp_tools import agents_server
    from ....server.service import named_places

    places, opening = named_places(indexes), OpenOptions(model)
    opened = {name: Index(place, opening, writing) for name, place in places.items()}
    for at in opened.values():  # errors are for the user to see now, not for the agent later
        core = at.opened().core
        if write:
            core.check_writable()

    async def do(name: str, command: Command) -> dict[str, Any]:
        return await anyio.to_thread.run_sync(lambda: command.run(opened[name].opened()))

    server = agents_server([*opened], do, writes=write)
    if http:
        server.run("streamable-http", port=port)
    else:
        server.run()
