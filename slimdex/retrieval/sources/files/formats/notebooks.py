"""Jupyter notebooks: text, code and output."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from slimdex.indexes.json_text import TooDeepError, parsed

from ..limits import UnreadableError
from ..outline import Extract, Outline
from . import markdown

LONGEST_OUTPUT = 2000
"""Characters kept of a cell's output."""


def read(text: str) -> Extract:
    """Read a notebook of format 3 or 4; every cell is a part."""
    book = _book(text)
    sheets = [book, *_objects(book, "worksheets")]
    outline, taken = Outline(), Counter[str]()
    for cell in (c for sheet in sheets for c in _objects(sheet, "cells")):
        outline.part(f"cell-id={cell['id']}" if cell.get("id") else "")
        source = _text(cell.get("source", cell.get("input", "")))
        if cell.get("cell_type") == "markdown":
            markdown.feed(outline, source, taken)
        else:
            outline.add(source)
            for output in _objects(cell, "outputs"):
                outline.add(_written(output))
    title = _text(_object(book, "metadata").get("title", "")) or outline.first_heading
    return Extract(title, outline.text, outline.parts)


def _book(text: str) -> dict[str, Any]:
    try:
        book = parsed(text)
    except ValueError as error:
        long = "a number of too many digits"  # hides Python's message about its own settings
        reason = error if isinstance(error, json.JSONDecodeError | TooDeepError) else long
        raise UnreadableError(f"not a notebook: {reason}") from error
    if not isinstance(book, dict):
        raise UnreadableError("not a notebook: expected a JSON object")
    return book


def _objects(holder: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = holder.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UnreadableError(f"not a notebook: {name!r} is not a list of objects")
    return found


def _object(holder: dict[str, Any], name: str) -> dict[str, Any]:
    found = holder.get(name, {})
    if not isinstance(found, dict):
        raise UnreadableError(f"not a notebook: {name!r} is not an object")
    return found


def _text(lines: Any) -> str:
    """Join a text that may be a list of lines."""
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines)


def _written(output: Any) -> str:
    found = output.get("text") or _object(output, "data").get("text/plain", "")
    return _text(found)[:LONGEST_OUTPUT]
