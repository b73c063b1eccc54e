"""The depth limit of JSON is the same in every Python and for every caller."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.system.json_text import DEEPEST, TooDeepError, dump_json, parse_json

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(LEAVES, lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=20)


@given(VALUES)
def test_written_values_are_read_back(value: Any) -> None:
    assert parse_json(dump_json(value)) == value == json.loads(dump_json(value))


@pytest.mark.parametrize("pair", [("[", "]"), ('{"a": ', "}"), ('[0, {"b": [], "a": ', "}]")])
def test_the_depth(pair: tuple[str, str]) -> None:
    brackets = sum(part in "[{" for part in pair[0].replace("[]", ""))
    fits, deeper = (DEEPEST - 1) // brackets, (DEEPEST - 1) // brackets + 1
    text = pair[0] * fits + '"[[[{{{"' + pair[1] * fits
    assert dump_json(parse_json(text)) == text
    for depth in (deeper, 10_000, 200_000):
        with pytest.raises(TooDeepError, match="at most 200 brackets"):
            parse_json(pair[0] * depth + "[]" + pair[1] * depth)


def test_many_brackets_side_by_side() -> None:
    value = [[{"a": ["]"]}]] * 10_000
    assert parse_json(dump_json(value)) == value


@pytest.mark.parametrize("depth", [201, 900, 100_000])
def test_values_nested_too_deep_are_not_written(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = (value,)
    with pytest.raises(TooDeepError):
        dump_json(value)


def test_invalid_json_is_refused() -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_json('{"a": }')
    with pytest.raises(TypeError):
        dump_json({1, 2})
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="Circular"):
        dump_json(endless)
