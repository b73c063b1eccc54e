"""The first page of the documentation: its figure is the README's."""

from __future__ import annotations

from ..links import Figure
from .readme import small

FIGURES = [
    Figure("level with float32 down to 1/128 of its bytes", lambda: [small()["compression"]]),
]
