"""Bodies of requests and answers, also for the OpenAPI page, and what most routes need."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Depends, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from starlette.exceptions import HTTPException

from ...documents import Hit, Part, json_of
from ...search.options import SearchOptions, options_of
from ..limits import Limits
from ..middleware import within
from ..served_index import ServedIndex
from ..service import Service


class LimitedRoute(APIRoute):
    """A route that reads a body within the service's limits."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Create the handler of requests."""
        answer = super().get_route_handler()

        async def read(request: Request) -> Response:
            limits = service_of(request).limits
            receive = within(request.receive, limits.body, limits.idle)
            return await answer(Request(request.scope, receive))

        return read


def service_of(request: Request) -> Service:
    """Return the service that a request is for."""
    service: Service = request.app.state.service
    return service


async def index_of(name: str, request: Request) -> ServedIndex:
    """Return the index that a request names; raises a 404 if there is none.

    It is `async` because FastAPI runs other functions in a thread.
    """
    return service_of(request).get(name)


Served = Annotated[ServedIndex, Depends(index_of)]


async def refuse_unknown_parameters(request: Request) -> None:
    """Raise a 422 for a parameter of the query that the route would ignore."""
    known = [each.alias for each in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else "none"
            raise HTTPException(422, f"parameter {name[:100]!r}; expected {expected}")


class Json(Response):
    """JSON as `json_of` writes it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode in UTF-8."""
        return json_of(content).encode("utf-8", "backslashreplace")


class ErrorBody(BaseModel):
    """An error: one line, with the value and what was expected; below `/v1` its `message`."""

    error: str | dict[str, str | None]


ERRORS: dict[int | str, dict[str, Any]] = {
    "default": {"model": ErrorBody, "description": "The request failed."}
}
"""Description of all errors."""


class Body(BaseModel):
    """A body whose values have the described types; others, and unknown fields, are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _option(name: str) -> Any:
    """Describe an option of a search, with its default and bounds."""
    option = options_of(SearchOptions)[name]
    return Field(
        option.default, description=option.http or option.help, ge=option.least, le=option.most
    )


class SearchBody(Body):
    """One or several queries, as text or vectors; exactly one of the first four fields."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "a pet on a rug", "limit": 3}]}
    )
    query: str | None = None
    queries: list[str] | None = None
    vector: list[float] | None = Field(None, description="A query encoded elsewhere.")
    vectors: list[list[float]] | None = None
    limit: Annotated[int, Field(le=Limits.hits)] = _option("limit")
    where: str | None = _option("where")
    glob: list[str] = _option("glob")
    regex: str | None = _option("regex")
    group_by: Literal["document", "passage"] = _option("group_by")
    candidates: int | None = _option("candidates")
    hybrid: Literal["auto", "off", "rrf"] | float = Field(
        "auto", description=options_of(SearchOptions)["hybrid"].http
    )
    query_encoder: Literal["model", "table"] | None = _option("query_encoder")
    min_score: float | None = _option("min_score")
    rerank: bool = Field(False, description=options_of(SearchOptions)["rerank"].http)
    excerpts: bool = Field(
        False,
        description="Add to each hit an `excerpt` with the query's words, its `excerpt_lines` and "
        "`excerpt_pages`, and the places of these words, `marks`, as pairs of offsets in the text, "
        "in characters.",
    )


@dataclass(frozen=True, kw_only=True)
class HitBody(Hit):
    """A document found, with its best passage."""

    excerpt: tuple[int, int] | None = None
    excerpt_lines: tuple[int, int] | None = None
    excerpt_pages: tuple[int, int] | None = None
    marks: list[tuple[int, int]] | None = None


class AnswerBody(BaseModel):
    """The hits of one query, best first."""

    query: str
    hits: list[HitBody]


class FoundBody(BaseModel):
    """Answers to all queries, and their times."""

    queries: list[AnswerBody]
    unfinished: str | None = Field(
        description="How many documents are in, while an addition goes on or was stopped."
    )
    milliseconds: dict[str, float] = Field(
        description="Times of the query's batch: encode, filter, scan, rescore, fetch; and wait."
    )


class WholeDocumentBody(BaseModel):
    """A document, with its sections and the offsets of its passages."""

    id: str
    title: str
    text: str
    metadata: dict[str, Any]
    parts: list[Part]
    passages: list[dict[str, int]]


class DocumentsBody(BaseModel):
    """Documents in the order of their ids."""

    documents: list[WholeDocumentBody]
    count: int = Field(description="All documents that match, on this page or not.")
    more: bool = Field(description="True if some follow: ask with the last id as `after`.")
    version: int = Field(description="Number that grows with each change.")


class DocumentBody(BaseModel):
    """A document; other fields are metadata."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"text": "The cat sat on the mat.", "year": 1990}]},
    )
    text: str
    title: str = ""


class NewDocumentBody(DocumentBody):
    """A document with its id."""

    id: StrictStr | StrictInt


class AddedBody(BaseModel):
    """Counts of an addition; further fields may follow."""

    model_config = ConfigDict(extra="allow")
    documents: int
    replaced: int
    unchanged: int
    encoded: int
    notes: list[str]


class DeleteBody(Body):
    """Documents by ids or by a condition, but not both."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": ["2"]}]})
    ids: list[str | int] | None = None
    where: str | None = None


class ReduceBody(Body):
    """Settings to change; the others stay."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"gamma": 0.5}]})
    k: int | None = None
    beta: float | None = None
    gamma: float | None = None
    kind: str | None = None
    candidates: int | Literal["auto"] | None = None
    reducer: str | None = None
    query_encoder: Literal["model", "table"] | None = None
