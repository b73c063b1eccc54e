"""Docstrings start with an imperative or a noun phrase, as in scikit-learn."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FOLDERS = (
    "indexes",
    "retrieval/encoders",
    "retrieval/exporting",
    "retrieval/lexical",
    "retrieval/sources",
)
"""Folders that follow the rule; the others are to be added."""
EXCEPT = ("word_vectors",)
"""Folders within these that do not follow it yet."""
FORBIDDEN = {"what", "whom", "whose", "who", "which", "whether", "how", "where", "when", "why"}
"""First words of clauses, which are neither imperatives nor noun phrases."""
FILES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if not {*path.relative_to(ROOT).parts} & {*EXCEPT}
)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of docstrings, including those below constants and attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_start_with_an_imperative_or_a_noun_phrase(path: Path) -> None:
    found = {line: text for line, text in docstrings(path) if _first_word(text) in FORBIDDEN}
    assert not found, f"{path}: {found}"


def test_clauses_are_found() -> None:
    texts = [text for _, text in docstrings(Path(__file__))]
    assert "Folders that follow the rule; the others are to be added." in texts
    assert [_first_word(text) for text in ("What it does.", "Whether so.")] == ["what", "whether"]


def _first_word(text: str) -> str:
    return (text.split() or [""])[0].lower().strip(",:;.`")
