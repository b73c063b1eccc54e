"""Texts with half a character are found anywhere in a value; all others pass."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.errors import InputError
from slimdex.system.unicode_text import check_unicode

WHOLE = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
HALF = st.builds("{}{}{}".format, WHOLE, st.characters(categories=["Cs"]), WHOLE)


def values(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | texts
    return st.recursive(
        leaves, lambda v: st.lists(v, max_size=4) | st.dictionaries(texts, v, max_size=4)
    )


def is_unicode(value: Any) -> bool:
    """An oracle: whether Python can write it in UTF-8."""
    try:
        str_of(value).encode()
    except UnicodeEncodeError:
        return False
    return True


def str_of(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(map(str_of, [*value, *value.values()]))
    return "".join(map(str_of, value)) if isinstance(value, list) else str(value)


@given(values(WHOLE | HALF))
def test_half_characters_are_refused_at_any_depth_and_in_keys(value: Any) -> None:
    if is_unicode(value):
        check_unicode(value, "it")
        return
    with pytest.raises(InputError, match=r"^it.* is not Unicode: half a character at \d"):
        check_unicode(value, "it")
