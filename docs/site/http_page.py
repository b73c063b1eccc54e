"""The page of the HTTP interface, from the service's OpenAPI description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from command_pages import plain

from slimdex.retrieval.server.app import application
from slimdex.retrieval.server.service import Service

JSON = "application/json"
NAMED = ("DocumentBody", "DocumentsBody", "FoundBody", "AnswerBody", "HitBody")
"""Schemas that requests share or answers consist of, described once."""


def http_page() -> str:
    """Write the page: requests, then what their bodies consist of."""
    api = application(Service()).openapi()
    lines = [
        "# HTTP",
        "[A service](../serve.md) describes access, limits and errors. A running one has this page "
        "at `/docs`, where requests can be tried, and its OpenAPI description at `/openapi.json`.",
    ]
    for path, methods in api["paths"].items():
        for method, route in methods.items():
            lines += _request(f"{method.upper()} {path}", route, api)
    lines.append("## Bodies")
    for name in NAMED:
        schema = _schema(api, name)
        lines += [f"### {name}", plain(schema["description"]), *_fields(schema)]
    return "\n\n".join(lines)


def _request(title: str, route: dict[str, Any], api: dict[str, Any]) -> Iterator[str]:
    """Yield the paragraphs of a request in Markdown: heading, description, body and answer."""
    yield f"## {title}"
    yield from (plain(" ".join(part.split())) for part in route["description"].split("\n\n"))

    # Body in each media type, with an example from the schema or, failing that, the media type.
    for type_, media in route.get("requestBody", {}).get("content", {}).items():
        name = _name(media.get("schema", {}))
        schema = _schema(api, name) if name else {}
        examples = schema.get("examples")
        if not examples:
            examples = [media["example"]] if "example" in media else []
        language = "json" if type_ == JSON else "text"
        shown = f":\n\n```{language}\n{_shown(examples[0])}\n```" if examples else "."
        yield f"Body, as `{type_}`{shown}"
        if name and name not in NAMED:
            yield from _fields(schema)

    # Answer to a successful request.
    done = next(each for code, each in route["responses"].items() if code.startswith("2"))
    answer = done.get("content", {}).get(JSON, {}).get("schema", {})
    if _name(answer) in NAMED:
        yield f"Answer: a {_type(answer)}."
    elif _name(answer):
        yield "Answer:"
        yield from _fields(_schema(api, _name(answer)))


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    """Yield each field of a schema in Markdown: name, type, whether it is required, and help."""
    is_request = "examples" in schema  # answers have no examples, and always all their fields
    for name, field in schema.get("properties", {}).items():
        default = field.get("default")
        facts = [_type(field)]
        if is_request and name in schema.get("required", ()):
            facts.append("required")
        if default is not None:
            facts.append(f"by default `{json.dumps(default)}`")
        help = plain(field.get("description", ""))
        yield f"`{name}`\n:   {', '.join(facts)}{'. ' if help else ''}{help}"


def _type(field: dict[str, Any]) -> str:
    """The type of a field, in words.

    >>> _type({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    'array of string'
    """
    if "anyOf" in field:
        return " or ".join(_type(each) for each in field["anyOf"] if each.get("type") != "null")
    name = _name(field)
    if name:
        return f"[{name}](#{name.lower()})" if name in NAMED else "object"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        several = field.get("prefixItems", [field.get("items")])  # a tuple's, or a list's
        return f"array of {', '.join(map(_type, several))}"
    return str(field.get("type", "any value"))


def _schema(api: dict[str, Any], name: str) -> dict[str, Any]:
    schema: dict[str, Any] = api["components"]["schemas"][name]
    return schema


def _name(schema: dict[str, Any]) -> str:
    """Name of the schema that a reference points to; "" if `schema` is not a reference."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _shown(example: object) -> str:
    return example.strip() if isinstance(example, str) else json.dumps(example)
