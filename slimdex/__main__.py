"""The whole command line: commands on indexes, `slimdex plan` and `slimdex bench`."""

from __future__ import annotations

import gc
import sys
from io import TextIOWrapper

from .retrieval.cli.app import program
from .retrieval.cli.errors import one_line_errors
from .retrieval.extras import missing_ones_told

app = program({"plan": "slimdex.bench.commands.planning:plan", "bench": "slimdex.bench.cli:app"})


GARBAGE = 100_000
"""Objects made between two collections of garbage; Python's own number costs 5% of a start."""


def main() -> None:
    """Run the command line; bad input is one line and exit code 2."""
    gc.set_threshold(GARBAGE)  # imports make many objects and no garbage
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may lack a letter
    with one_line_errors(), missing_ones_told():
        app(prog_name="slimdex", standalone_mode=False)


if __name__ == "__main__":
    main()
