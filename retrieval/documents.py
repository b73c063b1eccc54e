"""The two things that users handle: a Document goes in, a Hit comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OWN_COLUMNS = ("row", "id", "title", "text", "deleted")
"""Columns of ours in the documents table; the user's own can't have these names."""


@dataclass(frozen=True)
class Document:
    """A text with an id, an optional title and the user's own columns.

    >>> Document("7", "It rained.", title="Weather").content
    'Weather It rained.'
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def content(self) -> str:
        """What is encoded: title, a space, text (the BEIR convention)."""
        return content(self.title, self.text)


@dataclass(frozen=True)
class Hit:
    """A document found; `score` is a cosine, higher is nearer."""

    id: str
    score: float
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


def content(title: str, text: str) -> str:
    """What is encoded of a document: title, a space, text (the BEIR convention)."""
    return f"{title} {text}".strip()
