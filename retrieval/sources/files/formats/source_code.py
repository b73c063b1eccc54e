"""Source code, divided at classes and functions.

Python is parsed by `ast`. In other languages, a line is a definition if it begins with a common
keyword such as `class` or `fn`, or, as in C, with an unindented name and parentheses; deeper
indented lines belong to it.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from ....documents import Part
from ..outline import DEEPEST, Extract, shown

PYTHON = (".py", ".pyi")
DEFINED = re.compile(
    r"(?P<indent>[ \t]*)"
    r"(?:(?:export|default|pub(?:\([\w ]+\))?|public|private|protected|internal|static|final|open|"
    r"abstract|sealed|data|async|unsafe|extern(?: \"C\")?|const|inline|override|virtual|partial|"
    r"local|declare|inner|suspend)\s+)*"
    r"(?:class|struct|interface|enum|trait|impl|union|record|object|protocol|extension|module|"
    r"namespace|package|fn|func|fun|def|defp|defmodule|function\*?|sub|procedure|type)"
    r"\s+(?P<name>(?:\([^)]*\)\s*)?[\w$.:<>!?~*&' -]*[\w$!?>])",
)
BRACKETED = re.compile(
    r"(?P<indent>)(?!(?:if|for|while|switch|return|else|do|case|typedef|using|include)\b)"
    r"[A-Za-z_][\w\s*&:<>,~]*?\b(?P<name>[\w:~]+)\s*\([^;{}]*\)?[^;]*\{?\s*$",
)
SHELL = re.compile(r"(?P<indent>[ \t]*)(?P<name>[\w:.-]+)\s*\(\)\s*\{?")
BRACED = frozenset([".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx", ".m", ".mm", ".d"])
"""Endings of languages without a keyword for functions."""
SHELLS = frozenset([".sh", ".bash", ".zsh", ".ksh"])
LONGEST_LINE = 2000
"""Longest line that may be a definition; longer ones are generated code."""


class Definition(NamedTuple):
    """First and last line of a class or function, from 1; 0 if unknown."""

    line: int
    end: int
    level: int
    name: str


def read(text: str, ending: str) -> Extract:
    r"""Read a file of code; anchors are line numbers, as on GitHub.

    >>> code = read("import os\n\ndef a():\n    pass\n\nprint(a())\n", ".py")
    >>> [(part.start, part.headings, part.anchor) for part in code.parts]
    [(0, (), 'L1'), (11, ('a',), 'L3'), (30, (), 'L6')]
    """
    text = shown(text).rstrip()
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    parts, open_ = list[Part](), list[Definition]()

    def begin(line: int) -> None:
        """Begin a part, unless only blank lines remain or one begins here already."""
        start = starts[line - 1]
        if line <= len(lines) and text[start:].strip() and not (parts and parts[-1].start >= start):
            names = tuple(definition.name for definition in open_)[:DEEPEST]
            parts.append(Part(start, names, None, f"L{line}"))

    def go_on(after: int, before: int) -> None:
        """Begin a part of the enclosing definition after the end of an inner one."""
        filled = (n for n in range(after + 1, before) if lines[n - 1].strip())
        if (line := next(filled, None)) is not None:
            begin(line)

    go_on(0, len(lines) + 1)
    for found in [*_definitions(text, lines, ending), Definition(len(lines) + 1, 0, 0, "")]:
        while open_ and (0 < open_[-1].end < found.line or open_[-1].level >= found.level):
            if end := open_.pop().end:
                go_on(end, found.line)
        if found.name:
            if parts and parts[-1].start == starts[found.line - 1]:
                parts.pop()  # at the beginning of the file
            open_.append(found)
            begin(found.line)
    return Extract("", text, parts if any(part.headings for part in parts) else ())


def _definitions(text: str, lines: list[str], ending: str) -> Iterator[Definition]:
    if ending in PYTHON or (not ending and "python" in lines[0]):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                yield from _python(ast.parse(text), 1)
            return
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass  # for another Python version, or incomplete
    yield from _by_words(lines, ending)


def _python(node: ast.AST, level: int) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
            yield Definition(first, child.end_lineno or 0, level, child.name)
            if isinstance(child, ast.ClassDef):
                yield from _python(child, level + 1)
        elif isinstance(child, ast.If | ast.Try | ast.With):
            yield from _python(child, level)


def _by_words(lines: list[str], ending: str) -> Iterator[Definition]:
    patterns = [DEFINED]
    patterns += [BRACKETED] if ending in BRACED else []
    patterns += [SHELL] if ending in SHELLS else []
    indents: list[int] = []
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_LINE:
            continue
        found = next(filter(None, (pattern.match(line) for pattern in patterns)), None)
        if found is None or line.rstrip().endswith(";"):
            continue
        indent = len(found["indent"].expandtabs(4))
        while indents and indents[-1] >= indent:
            indents.pop()
        indents.append(indent)
        yield Definition(number, 0, len(indents), " ".join(found["name"].split()))
