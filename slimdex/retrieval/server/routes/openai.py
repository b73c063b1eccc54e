"""Routes compatible with OpenAI's API.

`/v1/embeddings` takes an index's name as the model: texts are encoded by its encoder and, if
`dimensions` is that of the index, reduced like its vectors.
"""

from __future__ import annotations

from base64 import b64encode
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix
from slimdex.indexes.reducers.reducer import reduce_rows

from ...index import Index
from ..limits import Limits
from ..served_index import ServedIndex
from .bodies import ERRORS, Json, LimitedRoute, Served, service_of

routes = APIRouter(prefix="/v1", route_class=LimitedRoute, responses=ERRORS, tags=["openai"])


class EmbeddingsBody(BaseModel):
    """Texts to encode; other fields are ignored."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "notes", "input": ["The cat sat."]}]}
    )
    input: str | list[str] = Field(
        description=f"A text, or up to {Limits.texts:,}; token ids are not accepted."
    )
    model: str = Field(description="The name of an index.")
    dimensions: int | None = Field(
        None, description="Dimensions of the encoder (default) or of the index."
    )
    encoding_format: Literal["float", "base64"] = "float"


@routes.get("/models", response_model=dict[str, Any])
async def models(request: Request) -> Response:
    """List the indexes as embedding models, with the most tokens that they read of a text."""
    descriptions = [await _model(index) for index in service_of(request).indexes.values()]
    return Json({"object": "list", "data": descriptions})


@routes.get("/models/{name}", response_model=dict[str, Any])
async def model(index: Served) -> Response:
    """An index as an embedding model."""
    return Json(await _model(index))


async def _model(index: ServedIndex) -> dict[str, Any]:
    """Describe an index as OpenAI's API describes a model."""
    return {
        "id": index.name,
        "object": "model",
        "created": 0,
        "owned_by": "slimdex",
        "max_model_len": await index.most_tokens(),
    }


@routes.post("/embeddings", response_model=dict[str, Any])
async def embeddings(body: EmbeddingsBody, request: Request) -> Response:
    """Encode texts with an index's encoder."""
    index = service_of(request).get(body.model)
    texts = [body.input] if isinstance(body.input, str) else body.input
    vectors = await index.embed(texts)
    if body.dimensions is not None and body.dimensions != vectors.shape[1]:
        vectors = await index.read(partial(_reduce_to, vectors=vectors, dimensions=body.dimensions))

    # Format vectors as numbers, or as base64 of float32, which OpenAI's own client requests.
    rows: list[Any] = vectors.tolist()
    if body.encoding_format == "base64":
        rows = [b64encode(row.astype("<f4").tobytes()).decode() for row in vectors]

    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    usage = {"prompt_tokens": 0, "total_tokens": 0}  # tokens are not counted
    return Json({"object": "list", "model": index.name, "data": data, "usage": usage})


def _reduce_to(index: Index, vectors: Matrix, dimensions: int) -> Matrix:
    """Reduce vectors as an index does; raises `InputError` if it has other dimensions."""
    state = index.state
    reducer = None if state.settings is None else index.snapshot.index.reducer
    if reducer is None or dimensions != reducer.n_components:
        known = f"{state.dim}" if reducer is None else f"{state.dim} or {reducer.n_components}"
        raise InputError(f"dimensions={dimensions}; expected {known}")
    return reduce_rows(reducer, vectors)
