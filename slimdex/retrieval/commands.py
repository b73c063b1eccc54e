"""Operations on an open index, shared by the command line and the tools for agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .documents import Document, id_text
from .encoders.base import encode_queries
from .index import Index
from .search.answer import encoder_for, rows_for
from .search.excerpts import Excerpt, beginning, nearest_passages
from .search.request import Hits, SearchRequest, answer
from .store.snapshot import Snapshot
from .store.where.conditions import Compare, as_sql


@dataclass(frozen=True)
class SearchResult:
    """Hits of a search, and what helps to judge them.

    Attributes
    ----------
    hits : of each query.
    unfinished : a sentence while not all documents are in, else "".
    excerpts : the best passage of each hit's text, if they were asked for.
    """

    hits: Hits
    unfinished: str
    excerpts: Sequence[Sequence[Excerpt]] | None = None


def search(index: Index, request: SearchRequest, *, excerpts: bool = False) -> SearchResult:
    """Answer a search request, and find the best passage of each text if `excerpts`."""
    passages = None
    if excerpts and request.texts is not None:
        index.read(rows_for, request)  # errors, before a model is loaded
        # The queries are encoded once, for the search and for the passages.
        state = index.state
        encoder = index.read(encoder_for, request, index.encoder_of)
        vectors = encode_queries(encoder, request.texts)
        hits = answer(replace(request, vectors=vectors, epoch=state.epoch), index.find)
        passages = nearest_passages(encoder, request.texts, vectors, hits)
    else:
        hits = answer(request, index.find)
        if excerpts:
            passages = [[*map(beginning, of_query)] for of_query in hits]
    return SearchResult(hits, index.snapshot.unfinished, passages)


def fetch(index: Index, id: str) -> Document:
    """Fetch a whole document by its id or, if none has this id, by a path with one document."""
    return index.read(Snapshot.of_ids, [id_of(index, id)])[0]


def id_of(index: Index, id: str) -> str:
    """Return an id or, if it is unknown, the id of the only document with this path."""
    columns = index.snapshot.columns
    known = index.read(lambda snapshot: snapshot.store.rows_of_ids([id_text(id)]))
    if known or "path" not in columns:
        return id
    condition = as_sql(Compare("path", "=", id), columns)
    first_two = index.read(Snapshot.of_condition, condition, 2)  # one or several?
    return first_two[0].id if len(first_two) == 1 else id


def is_mostly_deleted(index: Index) -> bool:
    """True if deleted rows, which still take space, are more than the documents: compact it.

    But not during a migration.
    """
    snapshot = index.snapshot
    return snapshot.state.replacement is None and snapshot.deleted_count > len(snapshot)
