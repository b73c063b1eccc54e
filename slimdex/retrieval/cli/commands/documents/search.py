"""Find documents, and show one: `slimdex search`, `related` and `open`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from ... import console
from ...execution import Index
from ...options.click_commands import Argument
from ...options.opening import Dir, Json, OpenOptions, Where
from ...options.searching import QueryOptions, SearchOptions


def search(
    index: Dir,
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
    from slimdex.retrieval import commands
    from slimdex.retrieval.documents import hit_from_json
    from slimdex.retrieval.encoders.runtimes.quick_start import quick_start

    from ... import answers

    given = queries.read()
    request = options.request(given, trust_remote_code=opening.trust_remote_code)
    found = partial(
        commands.search,
        request=request.first_stage,
        excerpts=not as_json and request.rerank is None,
        columns=show or [],
    )
    with quick_start():
        answer = Index(index, opening).do(found)
    hits = [[hit_from_json(hit) for hit in each] for each in answer["hits"]]
    if request.rerank is not None:
        answer["chance_score"] = None
        with console.progress():
            hits = request.reranked(hits)
    if as_json:
        by_query = answers.as_json(request.names, given.ids, hits)
        console.print_json({"queries": by_query, "chance_score": answer["chance_score"]})
        return
    texts = answer["excerpts"] or [None] * len(hits)
    is_text = request.texts is not None
    for name, of_query, parts in zip(request.names, hits, texts, strict=True):
        answers.show_hits(name, of_query, parts, answer["columns"], is_text=is_text)
    for line in answers.by_chance(request.names, hits, answer["chance_score"]):
        console.note(line)


def related(
    index: Dir,
    id: Annotated[str, Argument("ID", "The document's id or path.")],
    *,
    limit: Annotated[int, "-n", "--limit", "NUMBER", "Documents to find."] = 10,
    where: Where = None,
    as_json: Json = False,
) -> None:
    """Find the documents nearest in meaning to a document."""
    from slimdex.retrieval import commands
    from slimdex.retrieval.documents import hit_from_json

    from ...answers import show_hits

    found = Index(index).do(partial(commands.related, id=id, limit=limit, where=where))
    if as_json:
        console.print_json(found)
        return
    show_hits(found["id"], [hit_from_json(hit) for hit in found["hits"]], is_text=False)


def open_document(
    index: Dir,
    id: Annotated[str, Argument("ID", "The document's id or path.")],
    *,
    as_json: Json = False,
) -> None:
    """Print a whole document."""
    from slimdex.retrieval import commands

    document = Index(index).do(partial(commands.fetch, id=id))
    if as_json:
        console.print_json(document)
        return
    console.line(document["title"] or document["id"], style="bold")
    facts = {name: str(v) for name, v in document["metadata"].items() if v is not None}
    passages = len(document["passages"]) or 1
    console.show_pairs({"id": document["id"], **facts, "passages": passages})
    console.line("")
    for text in document["text"].split("\n"):
        console.line(text)
