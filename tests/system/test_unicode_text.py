"""Texts with half a character are found anywhere in a value; all others pass."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slimdex.errors import InputError
from slimdex.system.json_text import dump_json, parse_request_json
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
    text = dump_json(value).encode()
    if is_unicode(value):
        check_unicode(value, "it")
        assert parse_request_json(text, "it") == value
        return
    for check in (lambda: check_unicode(value, "it"), lambda: parse_request_json(text, "it")):
        with pytest.raises(InputError, match=r"^it.* is not Unicode: half a character at \d"):
            check()


@given(WHOLE, st.binary(min_size=1, max_size=4))
def test_bytes_that_are_not_utf_8_are_refused(text: str, other: bytes) -> None:
    data = dump_json({text: 1}).encode() + b" " + other
    try:
        data.decode()
    except UnicodeDecodeError as error:
        with pytest.raises(InputError, match=f"byte {error.start + 1:,} is wrong"):
            parse_request_json(data, "it")
    else:
        assume(False)


def test_both_halves_of_an_emoji_are_one_character() -> None:
    assert parse_request_json(rb'["\ud83d\ude00"]', "it") == ["\N{GRINNING FACE}"]
    with pytest.raises(InputError, match="half a character at 2"):
        parse_request_json(rb'["\ude00\ud83d"]'.replace(b'["', b'["a'), "it")


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[1] 2", b'{"a": 1, "a": 2}', b"[" * 500, b"9" * 5000]
)
def test_what_is_no_json_is_an_input_error(text: bytes) -> None:
    with pytest.raises(InputError, match=r"^line 7: .*expected"):
        parse_request_json(text, "line 7")
