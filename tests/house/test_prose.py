"""Docstrings start with an imperative or a noun phrase, and avoid some phrases."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("bench", "indexes", "retrieval", "slimdex")
CLAUSES = {"what", "whom", "whose", "who", "which", "whether", "how", "where", "when", "why"}
"""First words of clauses, which are neither imperatives nor noun phrases."""
AVOIDED = re.compile(
    r"\b(anew|for whoever|for who|what of|or none of|that there (?:is|are)|stranger(?:'s|s)?)\b"
)
FILES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if not any(parent.is_symlink() for parent in path.parents)
)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of docstrings, including those below constants and attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def fault(text: str) -> str | None:
    """Describe how a docstring breaks the rules; None if it follows them.

    >>> fault("What it does."), fault("Rebuild the codes anew."), fault("Number of rows.")
    ("starts with 'what'", "has 'anew'", None)
    """
    first = (text.split() or [""])[0].lower().strip(",:;.`")
    if first in CLAUSES:
        return f"starts with {first!r}"
    found = AVOIDED.search(text)
    return f"has {found[0]!r}" if found else None


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_are_plain(path: Path) -> None:
    found = {line: why for line, text in docstrings(path) if (why := fault(text))}
    assert not found, f"{path}: {found}"
