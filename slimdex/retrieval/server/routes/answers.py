"""Answers and errors, as the OpenAPI description has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

ERRORS = {
    400: "A value is wrong.",
    401: "A token is required.",
    403: "The caller may not do this.",
    404: "There is no such index, document or file.",
    408: "The body did not arrive in time.",
    409: "The name is taken.",
    413: "A limit is exceeded.",
    415: "The body is of another type.",
    422: "The request is not as described.",
    500: "The index, its encoder or the service has failed: its log says why.",
    503: "Busy, or not ready: try again later.",
    504: "No answer within the limit.",
    507: "The disk is full; nothing was changed.",
}
"""Statuses of errors, and what they mean."""
ANY_REQUEST = (400, 401, 403, 422, 500, 503)
"""Error statuses of all requests but those of `/health`."""
READ = (*ANY_REQUEST, 404, 408, 413, 415, 504)
CHANGED = (*READ, 409, 507)
Responses = dict[int | str, dict[str, Any]]


class ErrorBody(BaseModel):
    """An error: one line, with the value and what was expected."""

    error: str


class OpenAIError(BaseModel):
    """An error as OpenAI's clients read it."""

    message: str
    type: str
    code: str | None
    param: str | None


class OpenAIErrorBody(BaseModel):
    """An error as OpenAI's API answers."""

    error: OpenAIError


def errors(statuses: Sequence[int], body: type[BaseModel] = ErrorBody) -> Responses:
    """Describe the errors of routes."""
    return {status: {"model": body, "description": ERRORS[status]} for status in statuses}


def answer(body: type[BaseModel], status: int = 200) -> Responses:
    """Describe what a route answers."""
    return {status: {"model": body}}


class IndexBody(BaseModel):
    """An index of a service."""

    name: str
    documents: int


class IndexesBody(BaseModel):
    """The indexes of a service."""

    indexes: list[IndexBody]
    can: list[Literal["write", "rerank"]] = Field(description="What the caller can do.")


class InfoBody(BaseModel):
    """Contents, settings and sizes of an index; further fields may follow."""

    model_config = ConfigDict(extra="allow")
    path: str = Field(description="Its name.")
    documents: int
    deleted: int
    dimensions: int
    settings: dict[str, Any] | None
    requested: dict[str, Any]
    encoder: dict[str, Any]
    columns: dict[str, str] = Field(description="Name -> type.")
    memory: dict[str, float]
    notes: list[str]
    files: dict[str, int] = Field(description="Name -> bytes.")


class ValueBody(BaseModel):
    """A value of a column."""

    value: Any
    documents: int


class ColumnBody(BaseModel):
    """A column, with its values if they are few, its range, or the usual items of its lists."""

    name: str
    type: str
    values: list[ValueBody] | None = None
    folders: list[ValueBody] | None = None
    items: list[ValueBody] | None = None
    least: Any = None
    greatest: Any = None


class ColumnsBody(BaseModel):
    """The columns of an index."""

    columns: list[ColumnBody]


class PartBody(BaseModel):
    """A section or page of a document, up to the next one."""

    start: int
    headings: list[str]
    page: int | None
    anchor: str


class SpanBody(BaseModel):
    """Offsets of a passage in a text, in characters."""

    start: int
    end: int


class WholeDocumentBody(BaseModel):
    """A document, with its sections and passages."""

    id: str
    title: str
    text: str
    metadata: dict[str, Any] = Field(description="Its own columns.")
    parts: list[PartBody]
    passages: list[SpanBody]


class DocumentsBody(BaseModel):
    """Documents in the order in which they were added."""

    documents: list[WholeDocumentBody]
    count: int = Field(description="All documents that match, on this page or not.")
    more: bool = Field(description="True if some follow: ask with the last id as `after`.")
    version: int = Field(description="Number that grows with each change.")


class PutBody(BaseModel):
    """A document that was added or replaced."""

    id: str
    documents: int = Field(description="Documents of the index.")


class DeletedBody(BaseModel):
    """Deleted documents."""

    deleted: int
    documents: int = Field(description="Documents that are left.")


class AddedBody(BaseModel):
    """Added documents; further fields may follow."""

    model_config = ConfigDict(extra="allow")
    documents: int
    replaced: int
    unchanged: int
    encoded: int


class CompactedBody(BaseModel):
    """Counts after compacting."""

    freed: int = Field(description="Deleted rows.")
    documents: int


class ReducedBody(BaseModel):
    """Settings after reducing the vectors again."""

    requested: dict[str, Any]
    settings: dict[str, Any] | None
    notes: list[str]


class StatusBody(BaseModel):
    """A service's status."""

    status: Literal["alive", "ready", "loading", "recovering", "damaged", "busy"]


class ModelBody(BaseModel):
    """An index as an embedding model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int | None = Field(None, description="Most tokens that it reads of a text.")


class ModelsBody(BaseModel):
    """The indexes as embedding models."""

    object: Literal["list"]
    data: list[ModelBody]


class EmbeddingBody(BaseModel):
    """The vector of a text; with `encoding_format` base64, of little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class UsageBody(BaseModel):
    """Tokens that the encoder has read; 0 if it can't count them."""

    prompt_tokens: int
    total_tokens: int


class EmbeddedBody(BaseModel):
    """The vectors of texts, in their order."""

    object: Literal["list"]
    model: str
    data: list[EmbeddingBody]
    usage: UsageBody
