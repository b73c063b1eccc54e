"""Programs that Ctrl-C reaches, also where a shell started the tests in the background.

What is started so ignores Ctrl-C, and its children would after it; so they ask for it themselves,
at their start. `preexec_fn` would do it too, but runs in a fork of the tests' own process, where
handlers of libraries that earlier tests loaded can end it: gRPC's abort.
"""

from __future__ import annotations

import sys

HEARD = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
_MAIN = """
import sys
sys.argv[0] = "slimdex"
from slimdex.__main__ import main
main()
"""


def program(text: str, *words: str) -> list[str]:
    """The command of a Python program that Ctrl-C reaches."""
    return [sys.executable, "-c", f"{HEARD}\n{text}", *words]


def slimdex(*words: str) -> list[str]:
    """The command of `python -m slimdex`, which Ctrl-C reaches."""
    return program(_MAIN, *words)
