"""Requests and answers: service and index, and bodies, also for the OpenAPI page.

Requests have strict JSON: no duplicate keys or half characters, and limited nesting.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from fastapi import Depends, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException

from slimdex.errors import InputError
from slimdex.indexes.options import REDUCERS
from slimdex.system.json_text import parse_request_json

from ...documents import json_of
from ...search.options import SEVERAL, Option, SearchOptions, options_of
from ..limits import Limits
from ..middleware import within
from ..served_index import ServedIndex
from ..service import Service
from .failures import UNKNOWN_FIELD, unknown


class JsonRequest(Request):
    """A request that refuses JSON with duplicate keys, deep nesting or half characters."""

    async def json(self) -> Any:
        """Parse the body; raises `json.JSONDecodeError`, which FastAPI answers."""
        body = await self.body()
        try:
            return parse_request_json(body, "the body")
        except InputError as error:
            raise json.JSONDecodeError(str(error), "", 0) from error


class JsonRoute(APIRoute):
    """A route that uses `JsonRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Create the handler of requests."""
        answer = super().get_route_handler()

        async def read(request: Request) -> Response:
            limits = service_of(request).limits
            receive = within(request.receive, limits.body, limits.idle)
            return await answer(JsonRequest(request.scope, receive))

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


class Json(Response):
    """JSON as `json_of` writes it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode in UTF-8."""
        return json_of(content).encode("utf-8", "backslashreplace")


async def refuse_unknown_parameters(request: Request) -> None:
    """Raise a 422 for parameters of the query that the route would ignore."""
    if not request.query_params:
        return
    route = request.scope["route"]
    described = request.app.openapi()["paths"][route.path_format][request.method.lower()]
    parameters = described.get("parameters", [])
    known = [each["name"] for each in parameters if each["in"] == "query"]

    # Each parameter must be known and sent only once.
    sent = [name for name, _ in request.query_params.multi_items()]
    for name, times in Counter(sent).items():
        if name not in known:
            raise HTTPException(422, f"parameter {unknown(name, known)}")
        if times > 1:
            raise HTTPException(422, f"parameter {name!r} {times} times; expected it once")


class NamedValues(BaseModel):
    """Named values; unknown names are refused."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, content: Any) -> Any:
        for name in content if isinstance(content, dict) else ():
            if name not in cls.model_fields:
                line = f"field {unknown(name, cls.model_fields)}"
                raise PydanticCustomError(UNKNOWN_FIELD, "{line}", {"line": line})
        return content


class Body(NamedValues):
    """A request's body."""

    model_config = ConfigDict(strict=True)


Vector = Annotated[list[float], Field(min_length=1)]
Text = Annotated[str, Field(json_schema_extra={"pattern": r"\S"})]
"""A text with words; the description says so, and a better message the search itself."""
Where = Annotated[str, Field(json_schema_extra={"minLength": 1})]
"""A condition."""


class Queries(Body):
    """One or several queries, as text or vectors; exactly one of the first four fields."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "a pet on a rug", "limit": 3}]}
    )
    query: Text | None = Field(None, description="The search query.")
    queries: list[Text] | None = Field(None, min_length=1, description="Several queries.")
    vector: Vector | None = Field(None, description="A query encoded elsewhere.")
    vectors: list[Vector] | None = Field(None, min_length=1, description="Several of them.")


IN_JSON: dict[str, tuple[Any, Any]] = {
    "limit": (
        Annotated[int, Field(ge=1, json_schema_extra={"maximum": Limits.hits})],
        SearchOptions.limit,
    ),
    "where": (Where | None, None),
    "rerank": (bool, False),
}
"""Types and defaults of options that differ here."""
EXCERPTS = (
    "Also return the `excerpt` of each text with the query's words, and the places of these, "
    "`marks`: pairs of offsets in the text, in characters; and its first and last line, "
    "`excerpt_lines`."
)


def in_json(option: Option) -> tuple[Any, Any]:
    """Return the type of an option in JSON, with its bounds, and its default."""
    if option.kind == SEVERAL:
        return list[str], []
    # The type is the union of the option's types; some of them have bounds or choices.
    kinds: Any = {
        str: Literal[option.choices] if option.choices else str,
        int: Annotated[int, Field(ge=option.least, le=option.most)],
        float: Annotated[float, Field(ge=option.least, le=option.most)],
    }
    return reduce(or_, [kinds.get(kind, kind) for kind in option.kinds]), option.default


def search_body(options: type[SearchOptions]) -> type[Queries]:
    """Create the body of a search, with all options that a service offers."""
    fields = dict[str, Any]()
    for name, option in options_of(options).items():
        if option.http is not None:
            kind, default = IN_JSON.get(name) or in_json(option)
            fields[name] = (kind, Field(default, description=option.http or option.help))
    fields["excerpts"] = (bool, Field(False, description=EXCERPTS))
    return create_model("SearchBody", __base__=Queries, __doc__=Queries.__doc__, **fields)


SearchBody: Any = search_body(SearchOptions)


class HitBody(BaseModel):
    """A document found, with its best passage."""

    id: str
    score: float
    title: str
    text: str
    start: int
    end: int
    line: int | None
    last_line: int | None
    page: int | None
    headings: list[str]
    anchor: str
    found_by: str
    lines: list[tuple[int, int]]
    metadata: dict[str, Any]
    excerpt: tuple[int, int] | None = None
    excerpt_lines: tuple[int, int] | None = None
    marks: list[tuple[int, int]] | None = None


class AnswerBody(BaseModel):
    """The hits of one query, best first."""

    query: str
    hits: list[HitBody]


class FoundBody(BaseModel):
    """Answers to all queries, and their times."""

    queries: list[AnswerBody]
    chance_score: float | None = Field(
        description="Best score of as many random documents: a lower score is meaningless, "
        "unless it contains the query verbatim."
    )
    unfinished: str | None = Field(
        description="How many documents are in, while an addition goes on or was stopped."
    )
    milliseconds: dict[str, float] = Field(
        description="Times of the query's batch: encode, filter, scan, rescore, fetch; and wait."
    )


class RelatedBody(BaseModel):
    """The documents nearest to a document, best first."""

    hits: list[HitBody]


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


class DeleteBody(Body):
    """Documents by ids or by a condition, but not both."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": ["2"]}]})
    ids: list[str | int] | None = Field(None, min_length=1)
    where: Where | None = None


class ReduceBody(Body):
    """Settings to change; the others stay."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"gamma": 0.5}]})
    k: int | None = Field(None, ge=1)
    beta: float | None = None
    gamma: float | None = None
    kind: str | None = None
    candidates: int | Literal["auto"] | None = None
    reducer: str | None = Field(None, json_schema_extra={"enum": [*REDUCERS, None]})
