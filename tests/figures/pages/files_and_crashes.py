"""Files and crashes: the figures of its page."""

from __future__ import annotations

from slimdex.indexes.vectors.int8_rows import BLOCK

from ..links import Figure

FIGURES = [
    Figure("a bfloat16 scale for each 32 neighbouring numbers", lambda: [BLOCK]),
    Figure("d + d/16 bytes", lambda: [BLOCK / 2]),  # two bytes for each block
]
