"""The first page of the documentation: its figures are the README's."""

from __future__ import annotations

from ..links import Figure
from .readme import memory, small, usual

FIGURES = [
    Figure("**24 bytes in memory instead of 1,536**", lambda: [*memory(usual())]),
    Figure("level with float32 down to 1/128 of its bytes", lambda: [small()["compression"]]),
]
