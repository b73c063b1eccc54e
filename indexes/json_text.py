"""JSON text, read and written with one limit on how deep it is nested.

Python's own limit is what its stack takes: it differs between versions and callers, so that what
one has written another could not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from .errors import shortened

DEEPEST = 200
"""Brackets inside each other in what is written: Python 3.11 can't read a thousand, and who goes
through them call by call takes a few calls for each."""
READABLE = 900
"""In what is read and holds such values inside its own."""


class TooDeepError(ValueError):
    """JSON with more brackets inside each other."""

    def __init__(self, deepest: int) -> None:
        super().__init__(f"nested too deep; expected at most {deepest} brackets inside each other")


class TwiceError(ValueError):
    """JSON with an object that has a key twice."""


def parsed(text: str, deepest: int = DEEPEST) -> Any:
    """The value that a JSON text stands for.

    Raises
    ------
    json.JSONDecodeError
        If it is broken.
    TwiceError
        If an object has a key twice.
    TooDeepError
        If it is nested too deep.

    >>> parsed("[1, {}]")
    [1, {}]
    >>> parsed("[" * 201 + "]" * 201)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    slimdex.indexes.json_text.TooDeepError: nested too deep; expected at most 200 ...
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except RecursionError as error:
        raise TooDeepError(deepest) from error
    _check(value, text, deepest)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise TwiceError(f"the key {shortened(twice, 40)} twice in an object; expected it once")
    return found


def written(value: Any) -> str:
    """A value as JSON text.

    Raises
    ------
    TypeError
        If JSON has nothing like it.
    TooDeepError
        If it is nested too deep.
    ValueError
        If it has itself inside.

    >>> written([1, {"a": (2.5, None)}])
    '[1, {"a": [2.5, null]}]'
    """
    try:
        text = json.dumps(value)
    except RecursionError as error:
        raise TooDeepError(DEEPEST) from error
    _check(value, text, DEEPEST)
    return text


def _check(value: Any, text: str, deepest: int) -> None:
    if text.count("[") + text.count("{") <= deepest:  # which is quickly seen
        return
    level = _nested([value])
    for _ in range(deepest):
        level = _nested(
            child for item in level for child in (item.values() if isinstance(item, dict) else item)
        )
    if level:
        raise TooDeepError(deepest)


def _nested(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, (dict, list, tuple))]
