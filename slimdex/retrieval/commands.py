"""Commands on an open index: functions from an index to JSON values, and `Hit`s.

The command line, the service and agents run them. What changes an index is in `changes`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from slimdex.errors import InputError
from slimdex.indexes.arrays import batches
from slimdex.system.suggestions import did_you_mean

from .documents import (
    Document,
    Hit,
    Lines,
    document_json,
    id_text,
    line_starts,
    shown_columns,
    shown_values,
)
from .encoders.base import encode_queries
from .index import Index
from .search.answer import related as related_to
from .search.answer import rows_for
from .search.excerpts import beginning, nearest_passages
from .search.random_baseline import chance_score
from .search.request import SearchRequest, answer
from .store.snapshot import Snapshot
from .store.where.conditions import Compare, as_sql

LISTED_AT_ONCE = 10
LISTED_CHARACTERS = 4 << 20
"""A page of a listing ends when its documents have this many characters."""

Command = Callable[[Index], dict[str, Any]]


def search(
    index: Index,
    request: SearchRequest,
    *,
    excerpts: bool = False,
    columns: Sequence[str] = (),
) -> dict[str, Any]:
    """Answer a search request.

    Returns the `Hit`s of each query in "hits", the `Excerpt` of each text in "excerpts", the
    "chance_score" of random documents, the "columns" to show, and a sentence in "unfinished" while
    not all documents are in.

    Parameters
    ----------
    excerpts : find the best passage of each text.
    columns : metadata columns to return, each a name or several separated by commas.
    """
    names = chosen_columns(columns, shown_columns(index.snapshot.columns))
    texts = None
    if excerpts and request.texts is not None:
        index.read(rows_for, request)  # errors, before a model is loaded
        state = index.state
        encoder = index.encoder_of(state)
        vectors = encode_queries(encoder, request.texts)
        encoded = replace(request, vectors=vectors, epoch=state.epoch)
        hits_of_queries = answer(encoded, index.find)
        texts = nearest_passages(encoder, request.texts, vectors, hits_of_queries)
    else:
        hits_of_queries = answer(request, index.find)
        if excerpts:
            texts = [[beginning(hit) for hit in hits] for hits in hits_of_queries]
    chance = None
    if request.has_chance_score:
        chance = index.read(chance_score, request.condition)
    return {
        "hits": [_shown(hits) for hits in hits_of_queries],
        "excerpts": texts,
        "chance_score": chance,
        "columns": names,
        "unfinished": index.snapshot.unfinished,
    }


def chosen_columns(requested: Sequence[str], known: Sequence[str]) -> list[str]:
    """Columns to show, each a name or several separated by commas.

    Raises `InputError` if there is no such column.

    >>> chosen_columns(["Year,kind", "a,b"], ["year", "kind", "a,b"])
    ['year', 'kind', 'a,b']
    """
    by_lower = {name.lower(): name for name in known}
    names = []
    for word in requested:
        names += [word] if word.lower() in by_lower else [n.strip() for n in word.split(",")]
    if unknown := [name for name in names if name.lower() not in by_lower]:
        there = ", ".join(known) or "none: this index has no columns"
        suggestion = did_you_mean(unknown[0], known)
        raise InputError(f"column {unknown[0]!r}: no such column; expected {there}{suggestion}")
    return [by_lower[name.lower()] for name in names]


def fetch(index: Index, id: str) -> dict[str, Any]:
    """Fetch a whole document by its id or, if none has this id, by a path with one document."""
    return document_json(index.read(Snapshot.of_ids, [_id_of(index, id)])[0])


def read_lines(
    index: Index, ranges: Sequence[tuple[str, int, int | None]], longest: int
) -> dict[str, Any]:
    """Read ranges of lines, at most `longest` characters of each.

    A range is a document, named as by `fetch`, and the numbers of its first and last line, from 1;
    None is the document's end. They are lines of its file, or of its text if these are not known.
    Of a range with more than `longest` characters, the first lines are returned; or, if the first
    line is longer, its beginning.

    Raises `InputError` if there are no such lines.
    """
    documents = index.read(Snapshot.of_ids, [_id_of(index, id) for id, _, _ in ranges])
    parts = [
        _lines(document, first, last, longest)
        for document, (_, first, last) in zip(documents, ranges, strict=True)
    ]
    return {"documents": parts}


def _lines(document: Document, first: int, last: int | None, longest: int) -> dict[str, Any]:
    """Lines of a document, and where they are in its text."""
    starts = line_starts(document.text, document.lines)
    total = starts[-1][1]
    if not 1 <= first <= total or (last is not None and last < first):
        shown = f"lines {first}-{'' if last is None else last} of {document.id!r}"
        raise InputError(f"{shown}; expected FIRST-LAST, within its lines 1-{total}")
    begin, stop = _between(starts, first, last)
    start = starts[begin][0]
    # The break before the next line is not part of this one.
    end = starts[stop][0] - 1 if stop < len(starts) else len(document.text)
    text = document.text[start : max(start, end)]
    if len(text) > longest:
        cut = text.rfind("\n", 0, longest + 1)
        text = text[: longest if cut < 0 else cut]
        stop = bisect_right(starts, start + len(text), key=lambda pair: pair[0])
    return {
        "id": document.id,
        "title": document.title,
        "text": text,
        "line": starts[begin][1] if begin < stop else first,
        "last_line": starts[stop - 1][1] if begin < stop else first,
        "lines": total,
        "start": start,
        "metadata": shown_values(document.metadata),
    }


def _between(starts: Lines, first: int, last: int | None) -> tuple[int, int]:
    """Which of the lines that begin at `starts` are those from `first` to `last` of the file.

    None are, if the text does not have these, as front matter.
    """
    begin = bisect_left(starts, first, key=lambda pair: pair[1])
    # An empty line that only the text has, between two blocks, is counted as the next one.
    while begin + 1 < len(starts) and starts[begin + 1][1] == starts[begin][1]:
        begin += 1
    if last is None:
        return begin, len(starts)
    return begin, bisect_right(starts, last, key=lambda pair: pair[1])


def related(index: Index, id: str, limit: int = 10, where: str | None = None) -> dict[str, Any]:
    """Find the documents nearest to one, named as by `fetch`.

    Returns its "id" and the `Hit`s in "hits".
    """
    document_id = _id_of(index, id)
    return {"id": document_id, "hits": _shown(index.read(related_to, document_id, limit, where))}


def _shown(hits: Sequence[Hit]) -> list[Hit]:
    """Give hits the values of their columns as users are to see them."""
    return [replace(hit, metadata=shown_values(hit.metadata)) for hit in hits]


def _id_of(index: Index, id: str) -> str:
    """Return an id or, if it is unknown, the id of the only document with this path."""
    columns = index.snapshot.columns
    if index.has(id_text(id)) or "path" not in columns:
        return id
    condition = as_sql(Compare("path", "=", id), columns)
    documents = index.read(Snapshot.of_condition, condition, slice(2))
    return documents[0].id if len(documents) == 1 else id


def listing(
    index: Index, where: str | None = None, after: str | None = None, limit: int = 100
) -> dict[str, Any]:
    """List documents by the order of their addition, a page at a time.

    Returns "documents", the "count" of all that match, whether there are "more", and "version".
    Raises `InputError` if the condition is invalid, or `after` unknown.

    Parameters
    ----------
    after : id of the last document of the page before.
    limit : documents of a page; it has fewer, but at least one, if they are long.
    """
    version = index.state.version
    return index.read(partial(_page, where=where, after=after, limit=limit)) | {"version": version}


def _page(snapshot: Snapshot, where: str | None, after: str | None, limit: int) -> dict[str, Any]:
    rows = snapshot.rows_where(where)
    count = len(rows)
    if after is not None:
        rows = rows[rows > snapshot.row_of(after)]
    documents = list[Document]()
    for part in batches(min(limit, len(rows)), LISTED_AT_ONCE):
        numbers = rows[:limit][part].tolist()
        read = snapshot.documents(numbers)
        documents += [read[row] for row in numbers]
        if sum(len(document.text) for document in documents) >= LISTED_CHARACTERS:
            break
    values = [document_json(document) for document in documents]
    return {"documents": values, "count": count, "more": len(documents) < len(rows)}
