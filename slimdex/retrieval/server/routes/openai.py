"""Routes compatible with OpenAI's API.

`/v1/embeddings` takes an index's name as the model: texts are encoded by its encoder and, if
`dimensions` is that of the index, reduced like its vectors. `/v1/vector_stores` are the indexes;
`/v1/vector_stores/NAME/search` searches the index NAME, whose files are its documents.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError
from slimdex.indexes.search.reduced_index import reduced

from ...atomic_files import size
from ...collection import Collection
from ...documents import Hit
from ...operations.commands import fetch, listing
from ...search.request import SearchRequest
from ..served_index import ServedIndex
from .bodies import JsonRoute
from .openai_filters import where_of
from .search import service_of

routes = APIRouter(prefix="/v1", route_class=JsonRoute)


class EmbeddingsBody(BaseModel):
    """Texts to encode; other fields are ignored."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"model": "notes", "input": ["The cat sat."]}]},
    )
    input: str | list[str] = Field(description="A text, or several; token ids are not accepted.")
    model: str = Field(description="The name of an index.")
    dimensions: int | None = Field(
        None, description="Dimensions of the encoder (default) or of the index."
    )
    encoding_format: Literal["float", "base64"] = "float"


class RankingOptions(BaseModel):
    """Criteria for hits."""

    model_config = ConfigDict(extra="allow")
    score_threshold: float | None = None


class VectorStoreBody(BaseModel):
    """A search; other fields are ignored."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"query": "a pet on a rug", "max_num_results": 3}]},
    )
    query: str | list[str]
    max_num_results: int = Field(10, ge=1)
    filters: dict[str, Any] | None = None
    ranking_options: RankingOptions | None = None


@dataclass(frozen=True)
class Page:
    """A page of a list: at most `limit`, those after an id."""

    limit: Annotated[int, Query(ge=1, le=100)] = 20
    after: str | None = None
    order: Literal["asc"] = "asc"


@routes.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """List the indexes as embedding models, with the most tokens that they read of a text."""
    data: list[dict[str, Any]] = []
    for name, index in service_of(request).indexes.items():
        data.append({"id": name, "object": "model", "created": 0, "owned_by": "slimdex"})
        if (most := await index.most_tokens()) is not None:
            data[-1]["max_model_len"] = most
    return {"object": "list", "data": data}


@routes.post("/embeddings")
async def embeddings(body: EmbeddingsBody, request: Request) -> dict[str, Any]:
    """Encode texts with an index's encoder."""
    index = service_of(request).named(body.model)
    texts = [body.input] if isinstance(body.input, str) else body.input
    vectors = await index.embed(texts)
    if body.dimensions is not None and body.dimensions != vectors.shape[1]:
        vectors = await index.read(partial(_cut, vectors=vectors, dimensions=body.dimensions))
    read = await index.tokens(texts)
    return {
        "object": "list",
        "model": index.name,
        "data": [
            {"object": "embedding", "index": i, "embedding": _written(row, body.encoding_format)}
            for i, row in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": read, "total_tokens": read},
    }


def _cut(collection: Collection, vectors: Matrix, dimensions: int) -> Matrix:
    state = collection.state
    reducer = None if state.settings is None else collection.reduced_index.reducer
    kept = [] if reducer is None else [reducer.n_components]
    if reducer is None or dimensions not in kept:
        known = " or ".join(map(str, [state.dim, *kept]))
        raise InputError(f"dimensions={dimensions}; expected {known}")
    return reduced(reducer, vectors)


def _written(row: Matrix, encoding: str) -> str | list[float]:
    if encoding == "base64":
        return b64encode(row.astype("<f4").tobytes()).decode()
    values: list[float] = row.tolist()
    return values


@routes.post("/vector_stores/{name}/search")
async def search_store(name: str, body: VectorStoreBody, request: Request) -> dict[str, Any]:
    """Search the documents closest to a query; several queries give one merged list."""
    index = service_of(request).named(name)
    texts = [body.query] if isinstance(body.query, str) else body.query
    where = where_of(body.filters or None, index.collection)
    options = body.ranking_options or RankingOptions()
    least = options.score_threshold
    found = await index.search(
        SearchRequest(texts=texts, limit=body.max_num_results, where=where, min_score=least)
    )
    best: dict[str, Hit] = {}
    for hit in chain.from_iterable(zip_longest(*found.hits)):  # the first of each query, and so on
        if hit is not None:
            best.setdefault(hit.id, hit)
    hits = [*best.values()][: body.max_num_results]
    return {
        "object": "vector_store.search_results.page",
        "search_query": texts,
        "data": [_result(hit) for hit in hits],
        "has_more": False,
        "next_page": None,
    }


def _result(hit: Hit) -> dict[str, Any]:
    return {
        "file_id": hit.id,
        "filename": hit.title or hit.id,
        "score": round(hit.score, 6),
        "attributes": _attributes(hit.metadata),
        "content": [{"type": "text", "text": hit.text}],
    }


def _attributes(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A document's columns with values, those of other types as text."""
    plain = (str, int, float, bool)
    return {
        name: value if isinstance(value, plain) else str(value)
        for name, value in metadata.items()
        if value is not None
    }


@routes.get("/vector_stores")
async def stores(request: Request, page: Annotated[Page, Depends()]) -> dict[str, Any]:
    """List the indexes as vector stores, a page at a time, in the service's order ("asc")."""
    indexes = service_of(request).indexes
    names = [*indexes]
    if page.after is not None:
        service_of(request).named(page.after)
        names = names[names.index(page.after) + 1 :]
    data = [_store(indexes[name]) for name in names[: page.limit]]
    return _listed(data, len(names) > page.limit)


@routes.get("/vector_stores/{name}")
async def store(name: str, request: Request) -> dict[str, Any]:
    """Describe an index as a vector store."""
    return _store(service_of(request).named(name))


def _store(index: ServedIndex) -> dict[str, Any]:
    documents = len(index.collection)
    counts = {"completed": documents, "total": documents, "in_progress": 0}
    return {
        "id": index.name,
        "object": "vector_store",
        "created_at": 0,
        "name": index.name,
        "usage_bytes": size(index.collection.path),
        "file_counts": {**counts, "failed": 0, "cancelled": 0},
        "status": "completed",
        "expires_after": None,
        "expires_at": None,
        "last_active_at": None,
        "metadata": {},
    }


@routes.get("/vector_stores/{name}/files")
async def files(name: str, request: Request, page: Annotated[Page, Depends()]) -> dict[str, Any]:
    """List the documents of an index as files, in the order of their addition ("asc")."""
    index = service_of(request).named(name)
    found = await index.read(partial(listing, after=page.after, limit=page.limit))
    data = [_file(index.name, document) for document in found["documents"]]
    return _listed(data, found["more"])


@routes.get("/vector_stores/{name}/files/{id:path}/content")
async def file_content(name: str, id: str, request: Request) -> dict[str, Any]:
    """The text of a document."""
    index = service_of(request).named(name)
    document = await index.read(lambda collection: collection.get(id))
    return {
        "object": "vector_store.file_content.page",
        "data": [{"type": "text", "text": document.text}],
        "has_more": False,
        "next_page": None,
    }


@routes.get("/vector_stores/{name}/files/{id:path}")
async def file(name: str, id: str, request: Request) -> dict[str, Any]:
    """Describe a document as a file of a vector store."""
    index = service_of(request).named(name)
    return _file(name, await index.read(partial(fetch, id=id)))


def _file(store: str, document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": document["id"],
        "object": "vector_store.file",
        "created_at": 0,
        "usage_bytes": len(document["text"].encode()),
        "vector_store_id": store,
        "status": "completed",
        "last_error": None,
        "attributes": _attributes(document["metadata"]),
        "chunking_strategy": {"type": "other"},
    }


def _listed(data: list[dict[str, Any]], more: bool) -> dict[str, Any]:
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": more,
    }
