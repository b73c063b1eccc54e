"""The whole command line: commands on indexes, `slimdex plan` and `slimdex bench`."""

from __future__ import annotations

import sys
from io import TextIOWrapper

from .bench.cli import app as bench
from .bench.commands.planning import plan
from .retrieval.cli.app import app as app
from .retrieval.cli.errors import one_line_errors
from .retrieval.cli.options.flat_signature import flat
from .retrieval.extras import missing_ones_told

app.command()(flat(plan))
app.add_typer(bench, name="bench")


def main() -> None:
    """Run the command line; bad input is one line and exit code 2."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may lack a letter
    with one_line_errors(), missing_ones_told():
        app(prog_name="slimdex")


if __name__ == "__main__":
    main()
