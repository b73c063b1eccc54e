"""`slimdex search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from ... import console
from ...execution import Index
from ...options.opening import Dir, Json, OpenOptions
from ...options.searching import QueryOptions, SearchOptions

if TYPE_CHECKING:
    from slimdex.retrieval.documents import Hit
    from slimdex.retrieval.search.request import SearchRequest


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
    from slimdex.retrieval.documents import hit_from_json
    from slimdex.retrieval.encoders.runtimes.quick_start import quick_start
    from slimdex.retrieval.operations.commands import Search

    from ... import answers

    asked = queries.read()
    request = options.request(asked, trust_remote_code=opening.trust_remote_code)
    excerpts = not as_json and request.rerank is None
    with quick_start():
        answer = Index(index, opening).do(Search(request.first_stage, excerpts, show or []))
    found = [[hit_from_json(hit) for hit in hits] for hits in answer["hits"]]
    if request.rerank is not None:
        answer["chance_score"] = None
        with console.progress():
            found = request.reranked(found)
    if as_json:
        by_query = answers.as_json(request.names, asked.ids, found)
        console.print_json({"queries": by_query, "chance_score": answer["chance_score"]})
    else:
        _show(request, found, answer)


def _show(request: SearchRequest, found: list[list[Hit]], answer: dict[str, Any]) -> None:
    from ... import answers

    texts = answer["excerpts"] or [None] * len(found)
    for name, hits, parts in zip(request.names, found, texts, strict=True):
        is_text = request.texts is not None
        answers.show_hits(name, hits, parts, answer["columns"], is_text=is_text)
    for line in answers.by_chance(request.names, found, answer["chance_score"]):
        console.note(line)
