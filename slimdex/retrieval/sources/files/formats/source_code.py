"""Source code, divided at classes and functions.

Python is parsed by `ast`; other languages, and what `ast` can't parse, by their grammar if that is
installed, or else by keywords.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from itertools import accumulate

from ....documents import Part
from ..outline import DEEPEST, Extract, shown
from .definitions import Definition, by_grammar, by_keywords

PYTHON = (".py", ".pyi")


def read(text: str, ending: str) -> Extract:
    r"""Read a file of code; anchors are the lines of definitions, as on GitHub.

    >>> code = read("import os\n\ndef a():\n    pass\n\nprint(a())\n", ".py")
    >>> [(part.start, part.headings, part.anchor) for part in code.parts]
    [(0, (), 'L1'), (11, ('a',), 'L3-L4'), (30, (), 'L6')]
    """
    text = shown(text)
    return divided(text, definitions(text, ending))


def divided(text: str, definitions: Iterable[Definition]) -> Extract:
    """Divide a text at its definitions, which are in order."""
    text = text.rstrip()
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    parts, open_ = list[Part](), list[Definition]()

    def begin(line: int, end: int = 0) -> None:
        """Begin a part, unless the text ends here or one begins here already."""
        start = starts[line - 1]
        if start < len(text) and not (parts and parts[-1].start >= start):
            names = tuple(definition.name for definition in open_)[:DEEPEST]
            anchor = f"L{line}-L{end}" if end > line else f"L{line}"
            parts.append(Part(start, names, None, anchor))

    def go_on(after: int, before: int) -> None:
        """Begin a part of the enclosing definition after the end of an inner one."""
        filled = (n for n in range(after + 1, before) if lines[n - 1].strip())
        if (line := next(filled, None)) is not None:
            begin(line)

    go_on(0, len(lines) + 1)
    for found in [*definitions, Definition(len(lines) + 1, 0, 0, "")]:
        while open_ and (0 < open_[-1].end < found.line or open_[-1].level >= found.level):
            if end := open_.pop().end:
                go_on(end, found.line)
        if found.name:
            if parts and parts[-1].start == starts[found.line - 1]:
                parts.pop()  # at the beginning of the file
            open_.append(found)
            begin(found.line, found.end)
    return Extract("", text, parts if any(part.headings for part in parts) else ())


def definitions(text: str, ending: str) -> Iterable[Definition]:
    """Definitions in a text, in order."""
    found = _by_python(text) if ending in PYTHON else None
    found = by_grammar(text, ending) if found is None else found
    return by_keywords(text.split("\n"), ending) if found is None else found


def _by_python(text: str) -> list[Definition] | None:
    """Definitions by Python's own parser; None if it can't read the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return [*_python(ast.parse(text), 1)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # for another Python version, or incomplete


def _python(node: ast.AST, level: int) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
            yield Definition(first, child.end_lineno or 0, level, child.name)
            if isinstance(child, ast.ClassDef):
                yield from _python(child, level + 1)
        elif isinstance(child, ast.If | ast.Try | ast.With):
            yield from _python(child, level)
