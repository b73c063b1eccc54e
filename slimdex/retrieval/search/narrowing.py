"""Narrowing a search to files and texts by patterns, which become part of its condition."""

from __future__ import annotations

from collections.abc import Sequence

from slimdex.indexes.errors import InputError

from ..sql import literal

ANYWHERE = "**/"


def narrowed(where: str | None, globs: Sequence[str] = (), regex: str | None = None) -> str | None:
    r"""Join a condition, patterns of paths and a regular expression to one condition for `where`.

    Parameters
    ----------
    globs : patterns with ``*``, ``?`` and ``[a-z]``; one of them has to match the column `path`, or
        its end after a slash. ``*`` matches slashes too.
    regex : an expression of RE2 that has to match in the text; ``^`` and ``$`` match at lines.

    Raises `InputError` if a pattern is empty.

    >>> print(narrowed("year > 2000", ["*.py"], r"^def \w+"))
    (year > 2000
    ) AND ("path" GLOB '*.py' OR "path" GLOB '*/*.py') AND regexp_matches("text", '(?m)^def \w+')
    """
    for name, pattern in (*(("glob", glob) for glob in globs), ("regex", regex)):
        if pattern == "":
            raise InputError(f"{name} ''; expected a pattern")
    globs = [glob.removeprefix(ANYWHERE) for glob in globs]
    paths = [f'"path" GLOB {literal(path)}' for glob in globs for path in (glob, f"*/{glob}")]
    parts = [f"({' OR '.join(paths)})"] * bool(paths)
    if regex is not None:
        parts.append(f'regexp_matches("text", {literal(f"(?m){regex}")})')
    if where is not None and parts:
        parts.insert(0, f"({where}\n)")
    return " AND ".join(parts) or where
