"""Print the hits of a query for people, at any width of the terminal, or give them as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from ..documents import Hit, hit_json, shown_hit
from ..search.excerpts import (
    Excerpt,
    are_by_chance,
    nearest_by_words,
    on_one_line,
    shorten,
    word_places,
)
from ..search.places import file_of
from .console import hanging, line
from .safe_text import visible

LONGEST_ID = 1000
"""Limit of the characters shown of an id; some ids are a megabyte."""
LISTED_QUERIES = 3
QUERY_CHARACTERS = 40
"""Limits of the queries named in a line, and of the characters of each."""


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
        file = file_of(hit.metadata.get("path"))
        hanging(score, _heading(hit, file, excerpt))
        body = _with_words(excerpt.text, words)
        parts = (_place(hit, file, excerpt), _columns(hit, columns), body)
        for part in filter(None, parts):  # no line for an empty part
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


def by_chance(
    names: Sequence[str], hits_of_queries: Sequence[Sequence[Hit]], score: float | None
) -> list[str]:
    """Return a line about queries whose hits are no nearer than random documents; [] without any.

    Parameters
    ----------
    names : the queries.
    score : the best score of random documents, as many as there are; None if unknown.

    >>> by_chance(["tea"], [[Hit("7", 0.2, "")]], 0.31)
    ['the best hit is no nearer than a random document would be (0.200; random ones reach 0.310)']
    >>> by_chance(["tea", "rain"], [[Hit("7", 0.2, "")], [Hit("8", 0.5, "")]], 0.31)
    ["the best hit is no nearer than a random document would be (they reach 0.310) for 'tea'"]
    """
    if score is None:
        return []

    # Find the queries without a near hit, and their best scores.
    best_scores = {}
    for name, hits in zip(names, hits_of_queries, strict=True):
        if hits and are_by_chance(hits, score, name):
            best_scores[name] = max(hit.score for hit in hits)
    far = list(best_scores)
    statement = "the best hit is no nearer than a random document would be"
    if not far:
        return []
    if len(names) == 1:
        return [f"{statement} ({best_scores[far[0]]:.3f}; random ones reach {score:.3f})"]

    # Name only the first few of many queries.
    shown = [shorten(on_one_line(name), QUERY_CHARACTERS) for name in far[:LISTED_QUERIES]]
    some = ", ".join(f"'{name}'" for name in shown)
    more = f" and {len(far) - LISTED_QUERIES:,} more" if len(far) > LISTED_QUERIES else ""
    return [f"{statement} (they reach {score:.3f}) for {some}{more}"]


def _heading(hit: Hit, file: Path | None, excerpt: Excerpt) -> Text:
    """Return a hit's id, its title if that differs, and how it was found if not by its meaning."""
    named = Text(visible(shorten(hit.id, LONGEST_ID)), style="green")
    if file is not None and _is_named_by(hit.id, file):
        named.append(_colon_line(hit, excerpt), style="default")
    title = on_one_line(hit.title)
    if title and not _says_title(hit.id, hit.title):
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


def _place(hit: Hit, file: Path | None, excerpt: Excerpt) -> Text:
    """Return a passage's place: its file (unless the id names it), headings, and page or lines."""
    begins_with_title = bool(hit.headings) and hit.headings[0] == hit.title
    headings = hit.headings[1:] if begins_with_title else hit.headings
    place = [on_one_line(heading) for heading in headings]
    has_line_after_path = file is not None and bool(_colon_line(hit, excerpt))
    if hit.page is not None:
        place.append(f"page {hit.page:,}")
    elif not has_line_after_path:
        place += _lines(hit, excerpt)

    # The file comes first, unless the id names it.
    shown = Text(visible(shorten(" > ".join(place))), style="dim")
    if file is None or _is_named_by(hit.id, file):
        return shown
    path = Text(visible(shorten(str(file), LONGEST_ID)), style="green")
    path.append(_colon_line(hit, excerpt), style="default")
    return Text.assemble(path, "  " if shown else "", shown)


def _is_named_by(id: str, file: Path) -> bool:
    """Return whether an id is a file's path or its end, as for files in folders.

    >>> _is_named_by("a/b.md", Path("notes/a/b.md")), _is_named_by("b.md#7", Path("b.md"))
    (True, False)
    """
    relative = id.removeprefix("./").lstrip("/")
    # The slashes make whole names match: b.md does not match ab.md.
    return id != "" and f"/{file.as_posix()}".endswith(f"/{relative}")


def _says_title(id: str, title: str) -> bool:
    """Return whether a title is the id, or the name of the id's file without its extension.

    >>> _says_title("a/tea.md", "tea"), _says_title("a/tea.md", "Tea"), _says_title("7", "7")
    (True, False, True)
    """
    return id == title or id.rpartition("/")[2].startswith(f"{title}.")


def _lines(hit: Hit, excerpt: Excerpt) -> list[str]:
    """Format the line numbers of an excerpt, as a list of one item.

    The list is empty if they are unknown, or if the excerpt begins the text.
    """
    first = excerpt.line
    last = excerpt.last_line
    is_beginning = hit.start + excerpt.start == 0
    if first is None or last is None or is_beginning:
        return []
    return [f"line {first:,}" if first == last else f"lines {first:,}-{last:,}"]


def _colon_line(hit: Hit, excerpt: Excerpt) -> str:
    """Format a line number as editors accept it after a path, for code only.

    It is empty at the beginning of a file.
    """
    is_code = hit.metadata.get("kind") == "code"
    is_beginning = hit.start + excerpt.start == 0
    return f":{excerpt.line}" if is_code and not is_beginning else ""


def _columns(hit: Hit, columns: Sequence[str]) -> Text:
    """Return the names and values of the columns to show, on one line."""
    values = (f"{visible(name)}: {visible(_value(hit.metadata.get(name)))}" for name in columns)
    return Text("  ".join(values), style="dim")


def _value(value: Any) -> str:
    """Format a value of a column on one line; a dash stands for a missing value."""
    if isinstance(value, dict | list):
        value = json.dumps(value, default=str, ensure_ascii=False)
    return "-" if value is None else shorten(on_one_line(str(value)))
