"""`slimdex mcp`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from slimdex.indexes.errors import InputError

from ... import console
from ...execution import Index
from ...options.opening import Dirs, Json, Model, OpenOptions, WriteOptions
from ...safe_text import visible

if TYPE_CHECKING:
    from slimdex.retrieval.operations.commands import Command


@dataclass(frozen=True)
class InstallOptions:
    """Options to configure a client in place of serving it."""

    install: Annotated[
        str | None,
        "claude|codex|cursor|vscode",
        "Add these tools to the configuration of a client, which then starts this command itself.",
    ] = None
    show: Annotated[bool, "--print", "With --install: show what would be added, and where."] = False
    yes: Annotated[bool, "With --install: do not ask before changing the file."] = False
    as_json: Json = False


def mcp(
    indexes: Dirs,
    *,
    write: Annotated[bool, "Add the tools add and delete."] = False,
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
    installing: InstallOptions,
) -> None:
    """Give agents the tools search, related, get, fetch and info, over the Model Context Protocol.

    Any number of processes may serve and change an index: answers contain what others have
    committed by then, and changes take turns.
    """
    from slimdex.retrieval.server.service import named_places

    places, opening = named_places(indexes), OpenOptions(model)
    opened = {name: Index(place, opening, writing) for name, place in places.items()}
    for at in opened.values():  # errors are for the user to see now, not for the agent later
        core = at.opened()
        if write or sync:
            core.check_writable()
    followed = _followed(sync or [], [*places])
    if installing.install is None:
        _serve(opened, followed, write=write, port=port if http else None)
        return
    if http:
        raise InputError("--install with --http; expected one of them")
    words = [f"{name}={place.absolute()}" for name, place in places.items()]
    if model is not None:
        words += ["--model", str(Path(model).absolute()) if Path(model).exists() else model]
    for name, sources in followed.items():
        words += [word for source in sources for word in ("--sync", f"{name}={source}")]
    words += ["--write"] * write
    if write or followed:
        words += ["--wait", f"{writing.wait:g}"]
        words += ["--shared-filesystem"] * writing.shared_filesystem
    _install(installing, [*places], words)


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


def _install(options: InstallOptions, names: list[str], words: list[str]) -> None:
    """Add a server to a client's configuration, after asking."""
    from slimdex.retrieval.operations.agent_clients import clients, command_words, server_name

    known = clients()
    if (client := known.get(options.install or "")) is None:
        raise InputError(f"--install {options.install}; expected {', '.join(known)}")
    name, entry = server_name(names), client.entry([*command_words(), "mcp", *words])
    shown, changes = client.shown(name, entry), False
    if not options.show:
        changes = client.install(name, entry, dry_run=True)
        if changes and not options.yes:
            _ask(f"{client.file}: add this, and keep everything else?", shown)
        changes = changes and client.install(name, entry)
    if options.as_json:
        said = {"file": str(client.file), "name": name, "entry": entry, "changed": changes}
        console.print_json(said)
    elif options.show:
        console.note(str(client.file))
        print(shown, end="")
    else:
        console.line(f"{client.file}: {'added' if changes else 'already has'} {name!r}")


def _ask(question: str, shown: str) -> None:
    """Show a change and ask for it on standard error; without a yes, nothing is done."""
    for line in shown.splitlines():
        print(visible(line), file=sys.stderr)
    print(visible(question), "[y/N] ", file=sys.stderr, end="", flush=True)
    answer = sys.stdin.readline().strip().lower()
    if answer not in ("y", "yes"):
        print("" if answer else "\n", file=sys.stderr, end="")
        raise InputError(f"answer {answer!r}, nothing is changed; expected y, or --yes")


def _serve(
    opened: dict[str, Index], followed: dict[str, list[str]], *, write: bool, port: int | None
) -> None:
    """Serve the tools over stdin and stdout, or over HTTP at a port."""
    import anyio

    from slimdex.retrieval.asked_sources import AskedSources
    from slimdex.retrieval.operations.commands import Delete, Put
    from slimdex.retrieval.operations.following import Following
    from slimdex.retrieval.server.freshness import Freshness
    from slimdex.retrieval.server.mcp_tools import agents_server

    def kept_fresh(name: str) -> Freshness:
        following = Following(AskedSources(followed[name]))
        return Freshness(lambda: following.catch_up(opened[name].opened()))

    fresh = {name: kept_fresh(name) for name in followed}

    async def do(name: str, command: Command) -> dict[str, Any]:
        reads = name in fresh and not isinstance(command, Put | Delete)
        remark = await fresh[name].remark() if reads else ""
        found = await anyio.to_thread.run_sync(lambda: command.run(opened[name].opened()))
        return found | {"remark": remark}

    places = {name: index.path for name, index in opened.items()}
    server = agents_server([*opened], do, writes=write, places=places)
    if port is None:
        server.run()
    else:
        server.run("streamable-http", port=port)
