"""Notebooks: the texts and the code of a Jupyter notebook, with what the code wrote."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from . import markdown
from .limits import UnreadableError
from .outline import Extract, Outline

LONGEST_OUTPUT = 2000
"""Characters of what a cell wrote that are kept: the rest is seldom read."""


def read(text: str) -> Extract:
    """A notebook of format 3 or 4; every cell is a part."""
    try:
        book = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"no notebook: {error}") from error
    if not isinstance(book, dict):
        raise UnreadableError("no notebook: expected a JSON object")
    sheets = [book, *book.get("worksheets", [])]
    outline, taken = Outline(), Counter[str]()
    for cell in (c for sheet in sheets for c in sheet.get("cells", [])):
        outline.part(f"cell-id={cell['id']}" if cell.get("id") else "")
        said = _text(cell.get("source", cell.get("input", "")))
        if cell.get("cell_type") == "markdown":
            markdown.feed(outline, said, taken)
        else:
            outline.add(said)
            for output in cell.get("outputs", []):
                outline.add(_written(output))
    title = _text(book.get("metadata", {}).get("title", "")) or outline.first_heading
    return Extract(title, outline.text, outline.parts)


def _text(lines: Any) -> str:
    """A text that may be a list of its lines."""
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines)


def _written(output: Any) -> str:
    found = output.get("text") or output.get("data", {}).get("text/plain", "")
    return _text(found)[:LONGEST_OUTPUT]
