"""`slimdex mcp`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from ...execution import Index
from ...options.opening import Dirs, Model, OpenOptions, Wait

if TYPE_CHECKING:
    from ....operations.commands import Command


def mcp(
    indexes: Dirs,
    http: Annotated[bool, "Serve streamable HTTP at /mcp in place of stdin and stdout."] = False,
    port: Annotated[int, "With --http: the port; 0 takes a free one."] = 8001,
    model: Model = None,
    wait: Wait = 30,
) -> None:
    """Give agents the tools search, fetch and info, over the Model Context Protocol.

    An index is open only during a call, so that other processes can write to it. If a service
    has it open, the service answers.
    """
    import anyio

    from ....operations.commands import Info
    from ....server.mcp_tools import agents_server
    from ....server.service import named_places

    opening = OpenOptions(model, wait=wait)
    opened = {name: Index(place, opening) for name, place in named_places(indexes).items()}
    for at in opened.values():
        at.do(Info())  # errors are for the user to see now, not for the agent later

    async def do(name: str, command: Command) -> dict[str, Any]:
        return await anyio.to_thread.run_sync(opened[name].do, command)

    server = agents_server([*opened], do)
    if http:
        server.run("streamable-http", port=port)
    else:
        server.run()
