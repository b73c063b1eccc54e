"""Jupyter notebooks: text, code and output."""

from __future__ import annotations

from collections import Counter
from typing import Any

from slimdex.indexes.json_text import parsed

from ..limits import UnreadableError
from ..outline import Extract, Outline
from . import html_pages, markdown

LONGEST_OUTPUT = 2000
"""Characters kept of a cell's output."""


def read(text: str) -> Extract:
    """Read a notebook of any format, from 1 of 2011 on; every cell is a part.

    Raises `UnreadableError` if it is not one.
    """
    try:
        return _read(parsed(text))
    except (AttributeError, TypeError, ValueError) as error:
        raise UnreadableError(f"not a notebook: {str(error)[:100]}") from error


def _read(book: dict[str, Any]) -> Extract:
    outline, taken = Outline(), Counter[str]()
    for cell in _cells(book):
        outline.part(f"cell-id={cell['id']}" if cell.get("id") else "")
        kind, source = cell.get("cell_type"), _source(cell)
        if kind == "heading":  # of format 3
            level = min(max(int(cell.get("level", 1)), 1), 6)
            markdown.feed(outline, f"{'#' * level} {' '.join(source.split())}", taken)
        elif kind in ("markdown", "text"):
            markdown.feed(outline, source, taken)
        elif kind == "html":  # of formats 2 and 3
            outline.add(html_pages.text_of(source))
        else:
            outline.add(source)
            for output in cell.get("outputs", []):
                shown = output.get("text") or output.get("data", {}).get("text/plain", "")
                outline.add(_text(shown)[:LONGEST_OUTPUT])
    title = _text(book.get("metadata", {}).get("title", "")) or outline.first_heading
    return Extract(title, outline.text, outline.parts)


def _cells(book: dict[str, Any]) -> list[dict[str, Any]]:
    """Cells, which formats 2 and 3 divide among worksheets."""
    if "cells" not in book and "worksheets" not in book:
        raise ValueError("neither cells nor worksheets")
    sheets = [book, *book.get("worksheets", [])]
    return [cell for sheet in sheets for cell in sheet.get("cells", [])]


def _source(cell: dict[str, Any]) -> str:
    """Source of a cell; formats up to 3 name it otherwise."""
    names = ("source", "input", "code", "text")
    return _text(next((cell[name] for name in names if name in cell), ""))


def _text(lines: Any) -> str:
    """Join a text that may be a list of lines."""
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines)
