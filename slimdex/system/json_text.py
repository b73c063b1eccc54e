"""JSON with a fixed limit on nesting depth.

Python's own limit is its stack, which differs between versions and callers: one process could
write what another can't read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from slimdex.errors import shorten

DEEPEST = 200
"""Largest nesting depth of JSON that is written: Python 3.11 can't read a depth of 1000, and
recursive code takes several calls per level."""
READABLE = 900
"""Largest nesting depth of values that are read, which may contain written ones."""


class TooDeepError(ValueError):
    """JSON nested deeper than a limit."""

    def __init__(self, deepest: int) -> None:
        super().__init__(f"nested too deep; expected at most {deepest} brackets inside each other")


class DuplicateKeyError(ValueError):
    """JSON object with a duplicate key."""


def parse_json(text: str, deepest: int = DEEPEST) -> Any:
    """Parse a JSON text.

    Raises
    ------
    json.JSONDecodeError
        If it is malformed.
    DuplicateKeyError
        If an object has a key twice.
    TooDeepError
        If it is nested too deep.

    >>> parse_json("[1, {}]")
    [1, {}]
    >>> parse_json("[" * 201 + "]" * 201)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    slimdex.system.json_text.TooDeepError: nested too deep; expected at most 200 ...
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except RecursionError as error:
        raise TooDeepError(deepest) from error
    _check(value, text, deepest)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of an object's members; raise `DuplicateKeyError` if two have the same key."""
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise DuplicateKeyError(
            f"the key {shorten(twice, 40)} twice in an object; expected it once"
        )
    return members


def dump_json(value: Any, default: Callable[[Any], Any] | None = None, **options: Any) -> str:
    """Serialise a value as JSON, with options of `json.dumps`.

    `default` converts values of types that JSON lacks.

    Raises
    ------
    TypeError
        If a type has no JSON equivalent.
    TooDeepError
        If it is nested too deep.
    ValueError
        If it contains itself.

    >>> dump_json([1, {"a": (2.5, None)}])
    '[1, {"a": [2.5, null]}]'
    """
    try:
        text = json.dumps(value, default=default, **options)
    except RecursionError as error:
        raise TooDeepError(DEEPEST) from error
    _check(value, text, DEEPEST)
    return text


def _check(value: Any, text: str, deepest: int) -> None:
    """Raise `TooDeepError` if a value, whose JSON is `text`, is nested deeper than `deepest`."""
    # Fast path: so few brackets can't be nested too deep.
    if text.count("[") + text.count("{") <= deepest:
        return

    # Descend level by level: there may be no lists or dicts below `deepest`.
    level = _containers([value])
    for _ in range(deepest):
        children = list[Any]()
        for item in level:
            children += item.values() if isinstance(item, dict) else item
        level = _containers(children)
    if level:
        raise TooDeepError(deepest)


def _containers(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, (dict, list, tuple))]
