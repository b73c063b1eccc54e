"""Specs: the descriptions by which an index names its encoder, which anybody may have written."""

from __future__ import annotations

from typing import Any

from slimdex.indexes.errors import CorruptError, shortened_repr
from slimdex.indexes.json_text import written

MOST = 1 << 31
"""Limit of numbers in a spec."""
FIELDS: dict[str, dict[str, type]] = {
    "given": {"dim": int},
    "static": {"model": str, "sha256": str, "pooling": str},
    "transformer": {
        "model": str,
        "sha256": str,
        "pooling": str,
        "max_length": int,
        "precision": str,
    },
    "http": {"url": str, "model": str, "dim": int, "max_length": int, "fingerprint": str},
}
"""Types of encoders that an index can name -> their fields."""
OPTIONAL: dict[str, type] = {
    "revision": str,
    "api": str,
    "dimensions": int,
    "head": list,
    "prompts": list,
    "trust_remote_code": bool,
}
"""Other fields of these, which may be missing or None; lists are of texts."""
LENGTHS = {"head": range(MOST), "prompts": [2]}
"""Lists -> how many texts they may have."""


def check_spec(spec: Any) -> None:
    """Raise `TypeError` or `ValueError` unless a spec could be that of an index's encoder.

    Specs of other types are the user's.
    """
    if not isinstance(spec, dict):
        raise TypeError(f"encoder {shortened_repr(spec)}; expected an object")
    written(spec)  # which limits its depth
    if spec.get("type") == "mapped":  # by a slimdex before the first release
        raise ValueError("an encoder mapped to another one, by an older slimdex; build it again")
    for name, type_ in _fields(spec).items():
        may_be_none = name in OPTIONAL or name == "model"  # of a static encoder that is not saved
        if name in spec and not (spec[name] is None and may_be_none):
            _check_field(name, spec[name], type_)


def check_whole(spec: dict[str, Any]) -> None:
    """Raise `CorruptError` if a field is missing that opening the encoder requires."""
    if missing := sorted(_fields(spec).keys() - OPTIONAL.keys() - spec.keys()):
        raise CorruptError(f"encoder {shortened_repr(spec)}: no {', '.join(missing)}")


def _fields(spec: dict[str, Any]) -> dict[str, type]:
    kind = spec.get("type")
    return FIELDS[kind] | OPTIONAL if isinstance(kind, str) and kind in FIELDS else {}


def _check_field(name: str, value: Any, type_: type) -> None:
    is_right = type(value) is type_
    if is_right and type_ is list:
        is_right = all(type(text) is str for text in value) and len(value) in LENGTHS[name]
    if not is_right or not all(map(_is_plain, value if type_ is list else [value])):
        raise TypeError(f"encoder with {name}={shortened_repr(value)}; expected {type_.__name__}")


def _is_plain(value: str | int | bool) -> bool:
    """True for a text of Unicode without NUL, and a number that is positive and not too large."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)
    return isinstance(value, bool) or 1 <= value < MOST
