"""The command line: `slimdex`. Heavy modules are imported by the commands that need them."""

from __future__ import annotations

from typing import Annotated

import typer

from .commands.documents.add import add
from .commands.documents.build import build
from .commands.documents.delete import compact, delete
from .commands.documents.demo import demo
from .commands.documents.open_document import open_document
from .commands.documents.search import search
from .commands.documents.sync import sync
from .commands.index.distill import distill
from .commands.index.evaluate import evaluate
from .commands.index.health import health
from .commands.index.info import info
from .commands.index.reduce import reduce
from .commands.index.repair import repair
from .commands.index.tune import tune
from .commands.index.verify import verify
from .commands.index.words import words
from .commands.publishing.export import export
from .commands.publishing.mcp import mcp
from .commands.publishing.push import push
from .commands.publishing.serve import serve
from .options.flat_signature import flat

COMMANDS = (
    *(demo, build, search, add, sync, delete, compact, words, open_document, info, health, push),
    *(verify, repair, reduce, serve, mcp, tune, export, distill, evaluate),
)
"""Commands in the order of `slimdex --help`."""
NAMES = {open_document: "open", evaluate: "eval"}
"""Names of commands whose functions have other names, to avoid those of Python."""
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"slimdex {version('slimdex')}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Semantic search in a fraction of the memory."""


for command in COMMANDS:
    app.command(NAMES.get(command))(flat(command))
