"""The program `slimdex`, which imports its commands once Ctrl-C can't end it with a traceback."""

from __future__ import annotations

import atexit
import gc
import sys
from io import TextIOWrapper

from .retrieval.cli.interrupts import interruptible

GARBAGE_THRESHOLD = 100_000
"""Objects made between two collections of garbage; Python's own number costs 5% of a start."""


def main() -> None:
    """Run the command line; bad input is one line and exit code 2."""
    with interruptible():
        gc.set_threshold(GARBAGE_THRESHOLD)  # imports make many objects and no garbage
        atexit.register(gc.freeze)  # else Python looks for garbage among them before it ends
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may lack a letter
        # Most of the time of --help: Ctrl-C during it is one line, too.
        from slimdex.system.extras import missing_extras_explained

        from .command_line import app
        from .retrieval.cli.errors import one_line_errors

        with one_line_errors(), missing_extras_explained():
            app(prog_name="slimdex", standalone_mode=False)


if __name__ == "__main__":
    main()
