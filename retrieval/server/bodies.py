"""Bodies: what requests and answers look like, for people, programs and the OpenAPI page."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError


class Body(BaseModel):
    """A request's body: a name that is none of its fields is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _unicode(text: str) -> str:
    """The text; JSON can write halves of characters (``\\ud800``) that no text has."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = f"half a character at {error.start:,}; expected whole ones"
            raise PydanticCustomError("unicode", "{half}", {"half": half}) from error
    return text


Text = Annotated[str, AfterValidator(_unicode)]
"""A text that can be written as UTF-8."""
Vector = Annotated[list[float], Field(min_length=1)]


class SearchBody(Body):
    """One query or several, as text or as vectors; exactly one of the first four."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "a pet on a rug", "limit": 3}]}
    )
    query: Text | None = Field(None, description="What is looked for, in words.")
    queries: list[Text] | None = Field(None, min_length=1, description="Several, in one answer.")
    vector: Vector | None = Field(None, description="In place of a text, encoded elsewhere.")
    vectors: list[Vector] | None = Field(None, min_length=1, description="Several of them.")
    limit: int = Field(10, ge=1, description="Documents for each query.")
    where: Text | dict[str, Any] | None = Field(
        None, description="A condition on the documents' columns: SQL, or a filter as OpenAI's."
    )
    per: Literal["document", "passage"] = Field(
        "document", description="One hit for each document, or for each passage."
    )
    candidates: int | None = Field(
        None, ge=0, description="Rescored, in place of the index's own; 0: the codes' order."
    )
    hybrid: Literal["off", "auto", "rrf"] | Annotated[float, Field(ge=0, le=1)] = Field(
        "off",
        description="Whether the words of texts count beside meaning: by a weight, by ranks, or as "
        "`slimdex tune` found to help. Needs a words' index.",
    )
    min_score: float | None = Field(None, ge=-1, le=1, description="Hits below it are left out.")


class HitBody(BaseModel):
    """A document found, by its best passage."""

    id: str
    score: float
    title: str
    text: str
    start: int
    end: int
    line: int
    page: int | None
    headings: list[str]
    anchor: str
    metadata: dict[str, Any]


class AnswerBody(BaseModel):
    """The hits of one query, best first."""

    query: str
    hits: list[HitBody]


class FoundBody(BaseModel):
    """The answers to all queries, and what they cost."""

    queries: list[AnswerBody]
    chance_score: float | None = Field(
        description="What the best of as many random documents scores: a hit below says nothing, "
        "unless it has the query word for word."
    )
    milliseconds: dict[str, float] = Field(
        description="Of the batch that the query was in: "
        "encode, filter, scan, rescore, fetch; and wait."
    )


class DocumentBody(BaseModel):
    """A document; other names than these are its metadata."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"text": "The cat sat on the mat.", "year": 1990}]},
    )
    text: Text
    title: Text = ""


class DeleteBody(Body):
    """Documents by their ids, or by a condition: one of the two."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": ["2"]}]})
    ids: list[Text | int] | None = Field(None, min_length=1)
    where: Text | None = None


class ReduceBody(Body):
    """Settings that are to change; the others stay."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"gamma": 0.5}]})
    k: int | None = Field(None, ge=1)
    beta: float | None = None
    gamma: float | None = None
    kind: Text | None = None
    candidates: int | Literal["auto"] | None = None
    reducer: Text | None = None


class SyncBody(Body):
    """Sources to be in step with, as `slimdex sync` has them."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"sources": ["/srv/notes"]}]})
    sources: list[Text] = Field(min_length=1)
    text: Text | None = None
    id: Text | None = None
    title: Text | None = None
    types: list[Text] | None = None
    encoding: Text | None = None
    file_format: Text | None = None
    refit: Literal["auto", "never", "always"] = "auto"
