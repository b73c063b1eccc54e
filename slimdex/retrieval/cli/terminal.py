"""Consoles of rich, which is imported for the first line that is printed."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

UNLIMITED = 1 << 20
"""Width of a pipe or file: nothing is cut or wrapped."""


@cache
def terminal(*, stderr: bool = False) -> Console:
    """Return the console of stdout or stderr."""
    from rich.console import Console

    if stderr:
        return Console(stderr=True, highlight=False)
    return Console(highlight=False, width=None if sys.stdout.isatty() else UNLIMITED)
