"""Outline: a text put together block by block, and where its sections and pages begin."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...documents import Part
from .limits import LARGEST_TEXT, UnreadableError

UNSHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that no reader sees: controls, lone surrogates and what is no character."""


@dataclass(frozen=True)
class Extract:
    """What is in a file.

    Attributes
    ----------
    title : "" where the file has none.
    parts : in order, the first at 0; none where the text is all one.
    facts : the columns that it fills: author, date, tags, description, language, pages,
        front_matter.
    """

    title: str
    text: str
    parts: Sequence[Part] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


DEEPEST = 16
"""Headings that a part may be below."""


class _Heading(NamedTuple):
    level: int
    text: str
    anchor: str


class Outline:
    r"""Blocks of text, one after the other, below headings of levels.

    A heading's own text is the last of its part's headings.

    >>> outline = Outline()
    >>> outline.heading(1, "Birds")
    >>> outline.add("They fly.")
    >>> outline.heading(2, "Hens", "hens")
    >>> outline.add("They don't.")
    >>> outline.text
    "Birds\n\nThey fly.\n\nHens\n\nThey don't."
    >>> [(part.start, part.headings, part.anchor) for part in outline.parts]
    [(0, ('Birds',), ''), (18, ('Birds', 'Hens'), 'hens')]
    """

    def __init__(self, largest: int = LARGEST_TEXT) -> None:
        self._pieces, self._length, self._largest = list[str](), 0, largest
        self._parts, self._stack = list[Part](), list[_Heading]()
        self._page: int | None = None
        self._anchor: str | None = None
        self._begins = True

    @property
    def text(self) -> str:
        """All blocks so far."""
        return "".join(self._pieces)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Where they begin; none if nothing is known of any."""
        known = any(part.headings or part.page or part.anchor for part in self._parts)
        return tuple(self._parts) if known or len(self._parts) > 1 else ()

    @property
    def first_heading(self) -> str:
        """The outermost heading that came first; "" if there is none."""
        return next((part.headings[0] for part in self._parts if part.headings), "")

    def add(self, text: str, separator: str = "\n\n") -> None:
        """A block; one that is empty is passed over.

        Raises
        ------
        UnreadableError
            If the whole becomes too long.
        """
        text = shown(text).strip("\n").rstrip()
        if not text.strip():
            return
        if self._length:
            self._append(separator)
        if self._begins:
            self._begin()
        self._append(text)

    def heading(
        self, level: int, text: str, anchor: str = "", separator: str = "\n\n", *, said: bool = True
    ) -> None:
        """A part begins, below the last heading of a lower level.

        Parameters
        ----------
        said : whether the heading stands in the text.
        """
        words = " ".join(shown(text).split())
        if not words:
            return
        self.leave(level)
        del self._stack[DEEPEST - 1 :]
        self._stack.append(_Heading(level, words, anchor))
        self._begins, self._anchor = True, None
        if said:
            self.add(words, separator)

    def leave(self, level: int) -> None:
        """What follows is no longer below headings of this level or higher ones."""
        while self._stack and self._stack[-1].level >= level:
            self._stack.pop()
            self._begins, self._anchor = True, None

    def part(self, anchor: str = "", page: int | None = None) -> None:
        """A part begins below the same headings: a cell, or a page."""
        self._begins, self._anchor = True, anchor
        self._page = page if page is not None else self._page

    def _begin(self) -> None:
        headings = tuple(heading.text for heading in self._stack)
        own = self._stack[-1].anchor if self._stack else ""
        anchor = own if self._anchor is None else self._anchor
        self._parts.append(Part(self._length, headings, self._page, anchor))
        self._begins = False

    def _append(self, text: str) -> None:
        self._length += len(text)
        if self._length > self._largest:
            raise UnreadableError(f"over {self._largest:,} characters of text")
        self._pieces.append(text)


def shown(text: str) -> str:
    """A text without the characters that no reader sees."""
    return UNSHOWN.sub("", text) if UNSHOWN.search(text) else text


def words(text: str | None) -> str:
    """A short text on one line."""
    return " ".join(shown(text or "").split())
