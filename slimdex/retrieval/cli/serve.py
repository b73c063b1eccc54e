"""Serve indexes: `slimdex serve` over HTTP, and `mcp` to agents."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from slimdex.errors import InputError
from slimdex.system.index_names import ENDING, is_index, no_file

from . import console
from .agent_clients import change_server
from .default_index import EXPECTED_INDEX, default_index
from .interrupts import end
from .options import DEFAULT_WRITING, Dirs, SomeDirs, WriteOptions, open_index

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from ..index import Index
    from ..server.access import Listening

T = TypeVar("T")
Client = Annotated[
    str | None,
    "CLIENT",
    "Do not serve: add this server to, or take it out of, the configuration of claude-code, "
    "claude-desktop, cursor, gemini, vscode or windsurf.",
]


@dataclass(frozen=True)
class ListenOptions:
    """Address, tokens and limits of a service."""

    host: Annotated[
        str, "Address to listen on; one that other machines reach needs --token-file."
    ] = "127.0.0.1"
    port: Annotated[int, "Port; 0 takes a free one."] = 8000
    token_file: Annotated[
        Path | None, "A file with lines 'read TOKEN' or 'write TOKEN', which only you can read."
    ] = None
    cors: Annotated[
        list[str] | None, "ORIGIN", "An origin whose pages may call, or *; can be repeated."
    ] = None
    tls_certificate: Annotated[Path | None, "Certificate, a PEM file."] = None
    tls_key: Annotated[Path | None, "Its key, a PEM file; default: in the certificate's file."] = (
        None
    )
    insecure: Annotated[bool, "Take tokens of other machines without TLS."] = False

    def parse(self) -> Listening:
        """Read the tokens, and check the other options against them."""
        # Loads ssl, socket and others.
        from ..server.access import Listening, Tokens

        tokens = None if self.token_file is None else Tokens.read(self.token_file)
        return Listening(
            host=self.host,
            port=self.port,
            tokens=tokens,
            pages=self.cors or [],
            certificate=self.tls_certificate,
            key=self.tls_key,
            insecure=self.insecure,
        )


def serve(
    listen: ListenOptions,
    writing: WriteOptions,
    indexes: SomeDirs = None,
    root: Annotated[
        Path | None, "FOLDER", "A folder, all of whose indexes NAME.index are served."
    ] = None,
    rerank: Annotated[
        str | None, "MODEL", "A cross-encoder that reorders the hits of searches that ask for it."
    ] = None,
) -> None:
    """Serve indexes over HTTP: searches and changes, for programs, people and agents."""
    # Loads FastAPI, pydantic and uvicorn, of the extra `serve`, and nearly all of slimdex.
    import logging

    from ..index import Index
    from ..search.reranking import CrossEncoder
    from ..server.app import run
    from ..server.service import Service

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    listening = listen.parse()
    words = indexes or []
    if root is not None:
        words += [str(path) for path in sorted(root.glob(f"*{ENDING}")) if is_index(path)]
    elif not words and (default := default_index()):
        words = [str(default)]
    if not words:
        raise InputError(f"serve: no index given; expected {EXPECTED_INDEX}, or in --root")
    open_one = partial(Index.open, **vars(writing))
    service = Service.open(
        _places(words),
        reranker=None if rerank is None else CrossEncoder(rerank),
        open_one=open_one,
    )
    run(service, listening, console.line)


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
    port: Annotated[int, "With --http: the port."] = 8001,
    install: Client = None,
    uninstall: Client = None,
    writing: WriteOptions,
) -> None:
    """Give agents the tools search, related, get, fetch and info, over the Model Context Protocol.

    Any number of processes may serve and change an index: answers contain what others have
    committed by then, and changes take turns.
    """
    if install and (http or uninstall or writing != DEFAULT_WRITING):
        raise InputError("--install with other options; expected --sync and --write at most")
    places = _places(indexes)
    server_name = f"slimdex-{'-'.join(places)}"
    if uninstall:
        change_server(uninstall, server_name, [])
        return

    # Errors are for the user to see now, not for the agent later.
    opened = {name: open_index(place, writing=writing) for name, place in places.items()}
    if write or sync:
        for index in opened.values():
            index.check_writable()
    followed = _parse_followed(sync or [], [*places])
    if install:
        words = [f"{name}={place.absolute()}" for name, place in places.items()]
        words += [f"--sync={name}={source}" for name in followed for source in followed[name]]
        change_server(install, server_name, words + ["--write"] * write)
        return

    server = _agents_server(opened, followed, write=write)
    # Ctrl-C ends the process at once, as safe as a kill: a thread may wait for input.
    signal.signal(signal.SIGINT, lambda *_: end(is_interrupted=True))
    if http:
        server.run("streamable-http", port=port)
    else:
        server.run()


def _places(words: Sequence[str]) -> dict[str, Path]:
    """Map the names of indexes to their folders."""
    from ..server.service import parse_places  # loads Starlette, of the extra `serve`

    return parse_places(words)


def _parse_followed(words: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Return the sources that each index follows, as absolute paths.

    Raises `InputError` if a word is not SOURCE or NAME=SOURCE, or there is no such file or folder.
    """
    followed = dict[str, list[str]]()
    for word in words:
        # A single index needs no name; a path may contain "=".
        name, _, source = word.partition("=")
        if not source or Path(word).exists():
            name = names[0] if len(names) == 1 else ""
            source = word
        if name not in names:
            raise InputError(f"--sync {word}; expected NAME=SOURCE, NAME one of {', '.join(names)}")
        if not Path(source).exists():
            raise InputError(f"--sync {no_file(source)}")
        followed.setdefault(name, []).append(str(Path(source).absolute()))
    return followed


def _agents_server(
    opened: Mapping[str, Index], followed: Mapping[str, Sequence[str]], *, write: bool
) -> MCPServer[Any]:
    """Create the server of the tools; answers follow the sources in `followed`."""
    # Loads the library of agents, of the extra `serve`, once all options are checked.
    from anyio.to_thread import run_sync

    from ..server.freshness import Following, Freshness
    from ..server.mcp_tools import Tools, agents_server
    from ..sources.source_request import SourceRequest

    sources = {name: SourceRequest(specs) for name, specs in followed.items()}
    fresh = {
        name: Freshness(partial(run_sync, Following(source).catch_up, opened[name]))
        for name, source in sources.items()
    }

    async def run(name: str, command: Callable[[Index], T], where: str | None) -> T:
        return await run_sync(command, opened[name])

    async def remark(name: str) -> str:
        return await fresh[name].remark() if name in fresh else ""

    folders = {name: index.path for name, index in opened.items()}
    return agents_server(Tools([*opened], run, remark, sources, folders), write=write)
