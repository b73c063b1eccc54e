"""What users handle: a Document, which may have parts, goes in, a Hit comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any
from uuid import UUID

from slimdex.indexes.errors import InputError

OWN_COLUMNS = ("row", "id", "title", "text", "deleted", "slimdex_origin")
"""Columns of ours in the documents table; the user's own can't have these names."""


SHOWN = 60
"""Characters of a text that a hit shows of itself."""


def id_text(id: Any) -> str:
    """An id as documents have it, wherever it is given: a whole number, or a UUID, is its text.

    Raises
    ------
    InputError
        If it is something else.

    >>> id_text("7"), id_text(7)
    ('7', '7')
    """
    if isinstance(id, str):
        return id
    if isinstance(id, bool) or not isinstance(id, Integral | UUID):
        raise InputError(f"id {repr(id)[:60]}; expected a text or a whole number")
    return str(id)


def id_texts(ids: Any) -> list[str]:
    """The texts of one id, or of several."""
    return [id_text(id) for id in (ids if is_several(ids) else [ids])]


def is_several(ids: Any) -> bool:
    """Whether these are ids, and not one id."""
    return isinstance(ids, Iterable) and not isinstance(ids, str | bytes)


@dataclass(frozen=True)
class Part:
    """Where a section or a page of a text begins; it ends where the next one begins.

    Attributes
    ----------
    start : characters of the text before it.
    headings : those above it, the outermost first.
    page : of a text that has pages, from 1 on.
    anchor : what a link to it says after ``#``.
    """

    start: int
    headings: Sequence[str] = ()
    page: int | None = None
    anchor: str = ""


@dataclass(frozen=True)
class Document:
    """A text with an id, an optional title and the user's own columns.

    Attributes
    ----------
    parts : of the text, in order, where it is known to have some: a long text is cut there first.
    passages : (start, end) of each, in characters, where an index has cut the text; not looked at
        when it is added.
    origin : where it comes from, as `sources.origins` writes it; an index keeps that, to know the
        document again, and does not give it back.

    >>> Document("7", "It rained.", title="Weather").content
    'Weather It rained.'
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    parts: Sequence[Part] = field(default=(), repr=False)
    passages: Sequence[tuple[int, int]] = field(default=(), repr=False, compare=False)
    origin: str = field(default="", repr=False, compare=False)

    @property
    def content(self) -> str:
        """What is encoded: title, a space, text (the BEIR convention)."""
        return content(self.title, self.text)


@dataclass(frozen=True, repr=False)
class Hit:
    """A document found, by its best passage; of a text that is not cut that is all of it.

    Attributes
    ----------
    score : a cosine, higher is nearer.
    text : the passage.
    start, end : where it is in the document's text, in characters.
    line : of the text, from 1 on, that it begins in.
    page : that it begins on, where the text is known to have pages.
    headings : those above all of it, the outermost first.
    anchor : what a link to it says after ``#``, where that is known.
    """

    id: str
    score: float
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    line: int = 1
    page: int | None = None
    headings: Sequence[str] = ()
    anchor: str = ""

    def __repr__(self) -> str:
        """For a notebook: id, score, and the beginning of the text.

        >>> Hit("7", 0.93141, "It rained. " * 9)
        Hit('7', 0.931, 'It rained. It rained. It rained. It rained. It rained. It ra'...)
        """
        shown = f"{self.text[:SHOWN]!r}..." if len(self.text) > SHOWN else repr(self.text)
        return f"Hit({self.id!r}, {self.score:.3f}, {shown})"


def passage_content(document: Document, number: int) -> str:
    """The title of a document, and its passage of that number; of one that is not cut, all of it.

    >>> passage_content(Document("7", "It rained. It snowed.", passages=[(0, 10), (11, 21)]), 1)
    'It snowed.'
    """
    if not document.passages:
        return document.content
    start, end = document.passages[number]
    return content(document.title, document.text[start:end])


def content(title: str, text: str) -> str:
    """What is encoded of a document: title, a space, text (the BEIR convention)."""
    return f"{title} {text}".strip()
