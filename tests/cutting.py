"""Passages of a text of any length, as an addition cuts it."""

from __future__ import annotations

from collections.abc import Sequence

from slimdex.retrieval.documents import Part, content
from slimdex.retrieval.passages import LONGEST_UNIT, Count, Passage, divide


def cut(title: str, text: str, parts: Sequence[Part], count: Count, length: int) -> list[Passage]:
    """Cut a text into passages, in order; a text that fits is one passage."""
    whole = content(title, text)
    if len(whole) <= LONGEST_UNIT * length and count([whole])[0] <= length:
        return [Passage(0, len(text), title)]
    return divide(title, text, parts, count, length)
