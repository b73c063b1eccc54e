"""Errors that a program can meet speak of parameters, not of command-line flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLAG = re.compile(r"(?<![\w-])--[a-z]")
COMMAND = re.compile(r"`slimdex [^`]*`")
"""A whole command to type may have flags."""
OF_COMMANDS = ("slimdex/retrieval/cli/", "slimdex/retrieval/server/")


def flags(source: str) -> Iterator[int]:
    """Lines of errors whose message has a flag."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            text = ast.unparse(node.exc)
            if FLAG.search(COMMAND.sub("", text)):
                yield node.lineno


def test_errors_name_no_flags() -> None:
    package = ROOT / "slimdex"
    paths = [*(package / "indexes").rglob("*.py"), *(package / "retrieval").rglob("*.py")]
    own = {path.relative_to(ROOT).as_posix(): path for path in paths}
    read = {name: path for name, path in own.items() if not name.startswith(OF_COMMANDS)}
    assert len(read) > 150
    found = [f"{name}:{line}" for name, path in read.items() for line in flags(path.read_text())]
    assert found == []
