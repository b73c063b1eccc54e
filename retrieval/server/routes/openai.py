"""Routes compatible with OpenAI's API.

`/v1/embeddings` takes an index's name as the model: texts are encoded by its encoder and, if
`dimensions` is that of the index, reduced like its vectors. `/v1/vector_stores/NAME/search`
searches the index NAME.
"""

from __future__ import annotations

from base64 import b64encode
from functools import partial
from itertools import chain, zip_longest
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from slimdex.indexes.arrays import Matrix
from slimdex.indexes.errors import InputError
from slimdex.indexes.search.reduced_index import reduced

from ...collection import Collection
from ...documents import Hit
from ...search.request import SearchRequest
from .bodies import Text
from .json_requests import JsonRoute
from .openai_filters import where_of
from .search import service_of

routes = APIRouter(prefix="/v1", route_class=JsonRoute)


class EmbeddingsBody(BaseModel):
    """Texts to encode; other fields are ignored."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"model": "notes", "input": ["The cat sat."]}]},
    )
    input: Text | list[Text] = Field(description="A text, or several; token ids are not accepted.")
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
    query: Text | list[Text]
    max_num_results: int = Field(10, ge=1)
    filters: dict[str, Any] | None = None
    ranking_options: RankingOptions | None = None


@routes.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """List the indexes as embedding models."""
    names = service_of(request).indexes
    data = [{"id": n, "object": "model", "created": 0, "owned_by": "slimdex"} for n in names]
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
    state = collection.core.state
    reducer = None if state.settings is None else collection.core.reduced_index.reducer
    kept = [] if reducer is None else [reducer.n_components]
    if reducer is None or dimensions not in kept:
        known = " or ".join(map(str, [state.dim, *kept]))
        raise InputError(f"dimensions={dimensions}; expected {known}")
    return reduced(reducer, vectors)


def _written(row: Matrix, encoding: str) -> str | list[float]:
    if encoding == "base64":
        return b64encode(row.astype("<f4").tobytes()).decode()
    found: list[float] = row.tolist()
    return found


@routes.post("/vector_stores/{name}/search")
async def search_store(name: str, body: VectorStoreBody, request: Request) -> dict[str, Any]:
    """Search the documents closest to a query; several queries give one merged list."""
    index = service_of(request).named(name)
    texts = [body.query] if isinstance(body.query, str) else body.query
    where = where_of(body.filters or None, index.collection)
    options = body.ranking_options or RankingOptions()
    least = options.score_threshold
    found = await index.search(
        SearchRequest(texts, limit=body.max_num_results, where=where, min_score=least)
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
    plain = (str, int, float, bool)
    return {
        "file_id": hit.id,
        "filename": hit.title or hit.id,
        "score": round(hit.score, 6),
        "attributes": {
            name: value if isinstance(value, plain) else str(value)
            for name, value in hit.metadata.items()
            if value is not None
        },
        "content": [{"type": "text", "text": hit.text}],
    }
