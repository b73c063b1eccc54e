"""Answers: what was found for a query, as a person reads it, at any width of the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from slimdex.indexes.errors import InputError

from ..documents import Hit
from .console import hanging, hit_json, line
from .excerpts import beginning, on_one_line, shortened
from .queries import Queries
from .safe_text import visible

_WORD = re.compile(r"\w+")
LONGEST_ID = 1000
"""Characters of an id that are shown: some are a megabyte."""


def show_hits(
    query: str,
    hits: Sequence[Hit],
    texts: Sequence[str] | None = None,
    columns: Sequence[str] = (),
    *,
    is_text: bool = True,
) -> None:
    """A query's answers, nearest first.

    Parameters
    ----------
    texts : what is shown of each hit's text; by default its beginning.
    columns : names of metadata to show.
    is_text : whether the query's words are those that were looked for; they are bold in the texts.
    """
    line(on_one_line(query), style="bold")
    if not hits:
        line("  nothing found")
    for hit, text in zip(hits, texts or [beginning(hit) for hit in hits], strict=True):
        score = Text(f"{hit.score:6.3f}  ", style="cyan")
        hanging(score, _named(hit))
        body = _with_words(visible(text), query if is_text else "")
        shown = (_place(hit), _columns(hit.metadata, columns), body)
        for part in filter(None, shown):
            hanging(Text(" " * len(score)), part)


def as_json(asked: Queries, found: Sequence[Sequence[Hit]]) -> list[dict[str, Any]]:
    """The answers to all queries as JSON has them; queries from a file have ids."""
    ids = [{"id": id} for id in asked.ids] if asked.ids else [{} for _ in found]
    return [
        {**id, "query": name, "hits": [hit_json(hit) for hit in hits]}
        for id, name, hits in zip(ids, asked.names, found, strict=True)
    ]


def chosen_columns(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """The columns that `--show` names, each a name or several with commas between them.

    Raises
    ------
    InputError
        If there is no such column.

    >>> chosen_columns(["Year,kind", "a,b"], ["year", "kind", "a,b"])
    ['year', 'kind', 'a,b']
    """
    by_lower = {name.lower(): name for name in known}
    names = []
    for word in asked:
        names += [word] if word.lower() in by_lower else [n.strip() for n in word.split(",")]
    if unknown := [name for name in names if name.lower() not in by_lower]:
        there = ", ".join(known) or "none: this index has no columns"
        raise InputError(f"--show {unknown[0]!r}: no such column; expected {there}")
    return [by_lower[name.lower()] for name in names]


def _named(hit: Hit) -> Text:
    """A hit's id and, where it has another one, its title."""
    named = Text(visible(shortened(hit.id, LONGEST_ID)), style="green")
    title = on_one_line(hit.title)
    if title and hit.title != hit.id:
        named.append("  " + visible(shortened(title)), style="default")
    return named


def _with_words(text: str, query: str) -> Text:
    """A text in which the words of the query are bold.

    >>> _with_words("The cat, the Cat's mat; category", "a cat").spans
    [Span(4, 7, 'bold'), Span(13, 16, 'bold')]
    """
    shown, words = Text(text), set(_WORD.findall(query.lower()))
    for found in _WORD.finditer(text):
        if found[0].lower() in words:
            shown.stylize("bold", *found.span())
    return shown


def _place(hit: Hit) -> Text:
    """Where in its document a passage is: the headings above it, and its page or line."""
    place = [on_one_line(heading) for heading in hit.headings]
    if hit.page is not None:
        place.append(f"page {hit.page:,}")
    elif hit.start:
        place.append(f"line {hit.line:,}")
    return Text(visible(shortened(" > ".join(place))), style="dim")


def _columns(metadata: Mapping[str, Any], columns: Sequence[str]) -> Text:
    values = (f"{name}: {_value(metadata.get(name))}" for name in columns)
    return Text(visible("  ".join(values)), style="dim")


def _value(value: Any) -> str:
    if isinstance(value, dict | list):
        value = json.dumps(value, default=str, ensure_ascii=False)
    return "-" if value is None else shortened(on_one_line(str(value)))
