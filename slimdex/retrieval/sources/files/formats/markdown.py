"""Markdown: visible text, by markdown-it-py, and the headings above each part."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from .. import front_matter
from ..outline import Extract, Outline
from . import html_pages

ANCHOR = re.compile(r"(?<!\s)\s*+\{#([^\s{}]++)[^{}]*+\}\s*+$")
"""Explicit anchor of a heading, in the syntax of Pandoc and MyST."""
LINES = ("bullet_list_open", "ordered_list_open")


def read(text: str) -> Extract:
    r"""Read a text with optional front matter; the title is from there or the first heading.

    >>> tea = read("---\ntags: [drinks, hot]\n---\n# Tea\n\nBoil *fresh* [water](tap.md).")
    >>> tea.title, tea.text, tea.facts["tags"], tea.parts[0].anchor
    ('Tea', 'Tea\n\nBoil fresh water.', ['drinks', 'hot'], 'tea')
    """
    values, body = front_matter.split(text)
    outline = Outline()
    feed(outline, body)
    lowered = {key.lower(): value for key, value in values.items()}
    title = front_matter.as_text(lowered.get("title")) or outline.first_heading
    return Extract(title, outline.text, outline.parts, front_matter.facts(values))


def feed(outline: Outline, text: str, taken: Counter[str] | None = None) -> None:
    """Append a text to an outline.

    `taken` are earlier anchors, to number duplicates.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    _Reader(outline, Counter() if taken is None else taken).read(parser.parse(text))


def slug(heading: str) -> str:
    """Anchor that GitHub and others give a heading.

    >>> slug("What's new in 3.2?")
    'whats-new-in-32'
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


class _Reader:
    def __init__(self, outline: Outline, taken: Counter[str]) -> None:
        self._outline, self._taken = outline, taken
        self._numbers: list[int | None] = []
        self._bullet = ""
        self._heading = self._rows = 0
        self._cells: list[str] | None = None

    def read(self, tokens: list[Any]) -> None:
        """Read blocks in order."""
        for token in tokens:
            kind = token.type
            if kind == "heading_open":
                self._heading = int(token.tag[1:])
            elif kind == "heading_close":
                self._heading = 0
            elif kind == "inline":
                self._say(_inline(token.children or []))
            elif kind in ("fence", "code_block"):
                self._say(token.content)
            elif kind == "html_block":
                self._say(_without_tags(token.content))
            elif kind in LINES:
                self._numbers.append(
                    int(token.attrs.get("start", 1)) if token.tag == "ol" else None
                )
            elif kind in ("bullet_list_close", "ordered_list_close"):
                self._numbers.pop()
            elif kind == "list_item_open":
                self._begin_item()
            elif kind == "table_open":
                self._rows = 0
            elif kind == "tr_open":
                self._cells = []
            elif kind == "tr_close":
                cells, self._cells = self._cells or [], None
                self._outline.add("\t".join(cells), "\n" if self._rows else "\n\n")
                self._rows += 1

    def _begin_item(self) -> None:
        number = self._numbers[-1]
        self._bullet = "  " * (len(self._numbers) - 1) + ("- " if number is None else f"{number}. ")
        if number is not None:
            self._numbers[-1] = number + 1

    def _say(self, text: str) -> None:
        if self._cells is not None:
            self._cells.append(" ".join(text.split()))
        elif self._heading:
            self._say_heading(text)
        else:
            self._outline.add(self._bullet + text, "\n" if self._bullet else "\n\n")
            self._bullet = ""

    def _say_heading(self, text: str) -> None:
        if named := ANCHOR.search(text):
            self._outline.heading(self._heading, text[: named.start()], named[1])
            return
        anchor = slug(text)
        before = self._taken[anchor]
        self._taken[anchor] += 1
        self._outline.heading(self._heading, text, f"{anchor}-{before}" if before else anchor)


def _inline(tokens: list[Any]) -> str:
    """Visible text of inline tokens: descriptions of pictures, no tags."""
    pieces = []
    for token in tokens:
        if token.type == "image":
            pieces.append(_inline(token.children or []))
        elif token.type == "softbreak":
            pieces.append(" ")
        elif token.type == "hardbreak" or token.content.lower() in ("<br>", "<br/>", "<br />"):
            pieces.append("\n")
        elif token.type != "html_inline":
            pieces.append(token.content)
    return "".join(pieces)


def _without_tags(text: str) -> str:
    """Visible text of inline HTML."""
    if text.lstrip().startswith("<!--") and text.rstrip().endswith("-->"):
        return ""
    return html_pages.text_of(text.encode("utf-8", "replace"))
