"""Jupyter notebooks: text, code and output."""

from __future__ import annotations

from collections import Counter
from typing import Any

from slimdex.indexes.json_text import parsed

from ..limits import UnreadableError
from ..outline import Extract, Outline
from . import markdown

LONGEST_OUTPUT = 2000
"""Characters kept of a cell's output."""


def read(text: str) -> Extract:
    """Read a notebook of format 4; every cell is a part.

    Raises `UnreadableError` if it is not one.
    """
    try:
        return _read(parsed(text))
    except (AttributeError, TypeError, ValueError) as error:
        raise UnreadableError(f"not a notebook: {str(error)[:100]}") from error


def _read(book: dict[str, Any]) -> Extract:
    outline, taken = Outline(), Counter[str]()
    for cell in book.get("cells", []):
        outline.part(f"cell-id={cell['id']}" if cell.get("id") else "")
        source = _text(cell.get("source", ""))
        if cell.get("cell_type") == "markdown":
            markdown.feed(outline, source, taken)
        else:
            outline.add(source)
            for output in cell.get("outputs", []):
                shown = output.get("text") or output.get("data", {}).get("text/plain", "")
                outline.add(_text(shown)[:LONGEST_OUTPUT])
    title = _text(book.get("metadata", {}).get("title", "")) or outline.first_heading
    return Extract(title, outline.text, outline.parts)


def _text(lines: Any) -> str:
    """Join a text that may be a list of lines."""
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines)
