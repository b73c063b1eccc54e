"""Print the hits of a query for people, at any width of the terminal, or give them as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from ..documents import Hit, hit_json, shown_hit
from ..search.excerpts import (
    Excerpt,
    nearest_by_words,
    on_one_line,
    shorten,
    word_places,
)
from .console import hanging, line
from .safe_text import visible

LONGEST_ID = 1000
"""Limit of the characters shown of an id; some ids are a megabyte."""


def show_hits(
    query: str,
    hits: Sequence[Hit],
    excerpts: Sequence[Excerpt] | None = None,
    columns: Sequence[str] = (),
    *,
    is_text: bool = True,
) -> None:
    """Print a query and its hits, nearest first.

    Parameters
    ----------
    excerpts : of each hit's text; default: the part with the query's words.
    columns : names of metadata to show.
    is_text : whether the query is a text; its words are then bold in the excerpts.
    """
    line(on_one_line(query), style="bold")
    if not hits:
        line("  nothing found")
    words = query if is_text else ""
    excerpts = excerpts or [nearest_by_words(words, hit) for hit in hits]

    # Print a line with the score and title of each hit, then its place, metadata and excerpt.
    for hit, excerpt in zip(map(shown_hit, hits), excerpts, strict=True):
        score = Text(f"{hit.score:6.3f}  ", style="cyan")
        hanging(score, _heading(hit, excerpt))
        lines = [_with_words(each.expandtabs(), words) for each in excerpt.text.splitlines()]
        for part in (_place(hit, excerpt), _columns(hit, columns), *lines):
            if part.plain.strip():  # no line for an empty part
                hanging(Text(" " * len(score)), part)


def as_json(
    names: Sequence[str], ids: Sequence[str] | None, hits_of_queries: Sequence[Sequence[Hit]]
) -> list[dict[str, Any]]:
    """Return a JSON object for each query, with its hits; queries from a file have `ids`."""
    values = []
    for i, (name, hits) in enumerate(zip(names, hits_of_queries, strict=True)):
        id = {"id": ids[i]} if ids else {}
        values.append({**id, "query": name, "hits": [*map(hit_json, hits)]})
    return values


def _heading(hit: Hit, excerpt: Excerpt) -> Text:
    """Return a hit's id, its title if that differs, and how it was found if not by its meaning."""
    named = Text(visible(shorten(hit.id, LONGEST_ID)), style="green")
    if _is_code(hit):  # as editors accept it after a path
        named.append(f":{excerpt.line}", style="default")
    title = on_one_line(hit.title)
    # The title of a file may be its name without the ending.
    if title and hit.id != title and not hit.id.rpartition("/")[2].startswith(f"{title}."):
        named.append("  " + visible(shorten(title)), style="default")
    if hit.found_by in ("words", "name"):
        named.append(f"  ({hit.found_by})", style="dim")
    return named


def _with_words(text: str, query: str) -> Text:
    """Make the words of the query bold in a text.

    >>> _with_words("The boiler, the Boiler's valve; boilers", "the boiler").spans
    [Span(4, 10, 'bold'), Span(16, 22, 'bold'), Span(32, 39, 'bold')]
    """
    shown = Text()
    end = 0
    for start, stop in word_places(text, query):
        shown.append(visible(text[end:start]))
        # Words may overlap in a script without spaces.
        shown.append(visible(text[max(start, end) : stop]), style="bold")
        end = stop
    return shown.append(visible(text[end:]))


def _place(hit: Hit, excerpt: Excerpt) -> Text:
    """Return a passage's place: its file (unless the id names it), headings, and page or line."""
    place = [on_one_line(heading) for heading in hit.headings]
    if place and place[0] == on_one_line(hit.title):
        del place[0]
    path = str(hit.metadata.get("path") or "")
    if path and not path.endswith(hit.id.removeprefix("./")):
        place.insert(0, path)
    if excerpt.page is not None:
        is_one = excerpt.page == excerpt.last_page
        place.append(f"page {excerpt.page}" + ("" if is_one else f"-{excerpt.last_page}"))
    elif hit.start + excerpt.start > 0 and excerpt.line and not _is_code(hit):
        place.append(f"line {excerpt.line:,}")
    return Text(visible(shorten(" > ".join(place))), style="dim")


def _is_code(hit: Hit) -> bool:
    return hit.metadata.get("kind") == "code"


def _columns(hit: Hit, columns: Sequence[str]) -> Text:
    """Return the names and values of the columns to show, on one line."""
    values = (f"{visible(name)}: {visible(_value(hit.metadata.get(name)))}" for name in columns)
    return Text("  ".join(values), style="dim")


def _value(value: Any) -> str:
    """Format a value of a column on one line; a dash stands for a missing value."""
    if isinstance(value, dict | list):
        value = json.dumps(value, default=str, ensure_ascii=False)
    return "-" if value is None else shorten(on_one_line(str(value)))
