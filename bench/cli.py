"""`slimdex bench`: experiments on search, each of which writes rows of results."""

from __future__ import annotations

import typer

from slimdex.retrieval.cli.options.flat_signature import flat

from .commands.encode import encode
from .commands.hybrid import hybrid
from .commands.peers import peers
from .commands.report import report
from .commands.retrieval import retrieval
from .commands.search import search
from .commands.serve import serve
from .commands.start import start
from .commands.sts import sts
from .commands.tables import tables
from .commands.tune import tune

COMMANDS = (retrieval, search, peers, start, encode, serve, tune, hybrid, sts, report, tables)
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """Measure quality against memory and time."""


for command in COMMANDS:
    app.command()(flat(command))
