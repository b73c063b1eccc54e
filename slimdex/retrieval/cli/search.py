"""Find documents, and show one: `slimdex search` and `open`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import sep
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from slimdex.errors import InputError, check_choice, counted
from slimdex.system.index_names import is_index

from ..documents import Document, document_json, hit_json, visible_columns, visible_values
from ..search.options import SearchOptions
from . import console
from .click_commands import Answer, Argument, Json
from .default_index import index_of_folder
from .options import DEFAULT_INDEX, Dir, OpenOptions, Where, open_index

if TYPE_CHECKING:
    from slimdex.indexes.arrays import Matrix

    from ..search.excerpts import Excerpt
    from ..search.request import SearchRequest


DirOrFolder = Annotated[
    Path,
    Argument(
        "DIR",
        "The index's folder, or another FOLDER/, which is indexed by the search itself; "
        f"{DEFAULT_INDEX}",
        is_index=True,
        is_folder=True,
    ),
]


@dataclass(frozen=True)
class Queries:
    """Texts or vectors; those from a file have ids."""

    texts: Sequence[str] | None = None
    vectors: Matrix | None = None
    ids: Sequence[str] | None = None


@dataclass(frozen=True)
class QueryOptions:
    """Queries, given in one of four ways."""

    words: Annotated[
        list[str] | None,
        Argument("QUERY", "What to search for; all words are one query."),
    ] = None
    query: Annotated[list[str] | None, "A query; can be repeated."] = None
    queries: Annotated[Path | None, "A file of queries: .txt with one per line, or any source."] = (
        None
    )
    query_vector: Annotated[
        str | None, "A vector in place of QUERY: a .npy file with one or more, or a JSON array."
    ] = None

    def read(self) -> Queries:
        """Read the queries.

        Raises `InputError` if there are none or several sources of them, or the file can't be read.
        """
        ways = {
            "QUERY": self.words,
            "--query": self.query,
            "--queries": self.queries,
            "--query-vector": self.query_vector,
        }
        ways_used = [name for name, value in ways.items() if value]
        if len(ways_used) != 1:
            named = " and ".join(ways_used) or "no query"
            raise InputError(f"search: {named}; expected one of {', '.join(ways)}")
        if self.query_vector:
            # Only for --query-vector.
            from ..sources.given_vectors import read_query_vectors

            return Queries(vectors=read_query_vectors(self.query_vector))

        # A file of queries.
        if self.queries:
            # Loads readers of all formats, which a typed query does without.
            from ..sources.source import read_pairs

            pairs = read_pairs(str(self.queries))
            if not pairs:
                raise InputError(f"{self.queries}: no queries; expected at least one")
            return Queries([text for _, text in pairs], ids=[id for id, _ in pairs])

        # Typed queries.
        texts = [" ".join(self.words)] if self.words else list(self.query or ())
        if not all(map(str.strip, texts)):
            raise InputError("search: an empty query; expected text")
        return Queries(texts)


def request_for(
    queries: Queries, options: SearchOptions, *, trust_remote_code: bool
) -> SearchRequest:
    """Build the request for queries; a cross-encoder is loaded after all else is checked."""
    from ..search.request import SearchRequest  # loads numpy

    globs = [glob.replace(sep, "/") for glob in options.glob]  # as paths are stored
    fields = vars(options) | {"glob": globs, "rerank": None}
    request = SearchRequest(texts=queries.texts, vectors=queries.vectors, **fields)
    if options.rerank is None:
        return request
    # Only with --rerank.
    from ..search.reranking import CrossEncoder

    model = CrossEncoder(str(options.rerank), trust_remote_code=trust_remote_code)
    return replace(request, rerank=model)


def search(
    index: DirOrFolder,
    *,
    queries: QueryOptions,
    options: SearchOptions,
    show: Annotated[
        list[str] | None, "Columns to show with the text, separated by commas; can be repeated."
    ] = None,
    opening: OpenOptions,
    as_json: Json = False,
) -> None:
    """Find the documents nearest in meaning."""
    # Loads numpy, FAISS and all else that a search runs, which --help does without.
    from slimdex.retrieval import commands

    from ..encoders.runtimes.quick_runtime import quick_start
    from . import answers

    content = queries.read()
    request = request_for(content, options, trust_remote_code=opening.trust_remote_code)
    path = index if is_index(index) else _enter(index, opening)
    with quick_start(), console.progress():
        opened = open_index(path, opening)
        columns = chosen_columns(show or [], visible_columns(opened.snapshot.columns))
        excerpts = not as_json and request.rerank is None
        result = commands.search(opened, request, excerpts=excerpts)
    if result.unfinished:
        console.note(result.unfinished)
    hits = result.hits
    if as_json:
        by_query = answers.as_json(request.names, content.ids, hits)
        console.print_json({"queries": by_query})
        return

    # Print text. `show_hits` makes the excerpts itself if there are none.
    excerpts_of: Sequence[Sequence[Excerpt] | None] = result.excerpts or [None] * len(hits)
    is_text = request.texts is not None
    for name, query_hits, query_excerpts in zip(request.names, hits, excerpts_of, strict=True):
        answers.show_hits(name, query_hits, query_excerpts, columns, is_text=is_text)


def _enter(folder: Path, opening: OpenOptions) -> Path:
    """Enter what has changed in a folder that is no index, and return where its index is."""
    from ..building import enter_folder  # loads readers of files

    path = index_of_folder(folder)
    with console.progress():
        added = enter_folder(path, folder, **vars(opening))
    if added.documents:
        console.note(f"{counted(added.documents, 'document')} entered into {path}")
        for line in added.notes:
            console.note(line)
    return path


def chosen_columns(words: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the columns to show, from words with names separated by commas.

    Raises `InputError` if there is no such column.

    >>> chosen_columns(["Year, kind"], ["year", "kind", "name"])
    ['year', 'kind']
    """
    by_lower = {name.lower(): name for name in known}
    names = [name.strip() for name in ",".join(words).split(",") if name.strip()]
    for name in names:
        check_choice("show", name.lower(), by_lower)
    return [by_lower[name.lower()] for name in names]


def open_document(
    index: Dir,
    id: Annotated[str, Argument("ID", "The document's id or path.")],
    *,
    related: Annotated[
        int | None, "NUMBER", "In place of the document, find the others nearest in meaning to it."
    ] = None,
    where: Where = None,
) -> Answer:
    """Print a whole document, or find related ones."""
    # As for `search`, without the encoder.
    from ..commands import fetch, id_of
    from ..search.answer import related as related_to
    from .answers import show_hits

    opened = open_index(index)
    if related is None:
        document = fetch(opened, id)
        return Answer(document_json(document), partial(_show_document, document))
    document_id = id_of(opened, id)
    hits = opened.read(related_to, document_id, related, where)
    facts = {"id": document_id, "hits": [*map(hit_json, hits)]}
    return Answer(facts, partial(show_hits, document_id, hits, is_text=False))


def _show_document(document: Document) -> None:
    console.line(document.title or document.id, style="bold")
    facts = {name: str(value) for name, value in visible_values(document.metadata).items()}
    passages = len(document.passages) or 1
    console.show_pairs({"id": document.id, **facts, "passages": passages})
    console.line("")
    for text in document.text.split("\n"):
        console.line(text)
