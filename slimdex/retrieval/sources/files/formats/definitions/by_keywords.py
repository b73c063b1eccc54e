"""Definitions by rules, for languages whose grammar is missing.

A line is a definition if it begins with a common keyword such as `class` or `fn`, or, as in C, with
an unindented name and parentheses; deeper indented lines belong to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .definition import Definition

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


def by_keywords(lines: Sequence[str], ending: str) -> Iterator[Definition]:
    """Yield the definitions in lines of code; their ends are unknown."""
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
