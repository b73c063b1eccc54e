"""Notebooks: the texts and the code of a Jupyter notebook, with what the code wrote."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from slimdex.indexes.json_text import TooDeepError, parsed

from . import markdown
from .limits import UnreadableError
from .outline import Extract, Outline

LONGEST_OUTPUT = 2000
"""Characters of what a cell wrote that are kept: the rest is seldom read."""


def read(text: str) -> Extract:
    """A notebook of format 3 or 4; every cell is a part."""
    book = _book(text)
    sheets = [book, *_objects(book, "worksheets")]
    outline, taken = Outline(), Counter[str]()
    for cell in (c for sheet in sheets for c in _objects(sheet, "cells")):
        outline.part(f"cell-id={cell['id']}" if cell.get("id") else "")
        said = _text(cell.get("source", cell.get("input", "")))
        if cell.get("cell_type") == "markdown":
            markdown.feed(outline, said, taken)
        else:
            outline.add(said)
            for output in _objects(cell, "outputs"):
                outline.add(_written(output))
    title = _text(_object(book, "metadata").get("title", "")) or outline.first_heading
    return Extract(title, outline.text, outline.parts)


def _book(text: str) -> dict[str, Any]:
    try:
        book = parsed(text)
    except ValueError as error:
        long = "a number of too many digits"  # else it names a setting of Python's
        said = error if isinstance(error, json.JSONDecodeError | TooDeepError) else long
        raise UnreadableError(f"no notebook: {said}") from error
    if not isinstance(book, dict):
        raise UnreadableError("no notebook: expected a JSON object")
    return book


def _objects(holder: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = holder.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UnreadableError(f"no notebook: {name!r} is no list of objects")
    return found


def _object(holder: dict[str, Any], name: str) -> dict[str, Any]:
    found = holder.get(name, {})
    if not isinstance(found, dict):
        raise UnreadableError(f"no notebook: {name!r} is no object")
    return found


def _text(lines: Any) -> str:
    """A text that may be a list of its lines."""
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines)


def _written(output: Any) -> str:
    found = output.get("text") or _object(output, "data").get("text/plain", "")
    return _text(found)[:LONGEST_OUTPUT]
