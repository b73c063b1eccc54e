"""Human-readable sizes: 200MB, 1.5GiB."""

from __future__ import annotations

import re

from slimdex.indexes.errors import InputError

UNITS = {"": 1, "b": 1}
UNITS |= {f"{letter}b": 1000**i for i, letter in enumerate("kmgt", 1)}
UNITS |= {f"{letter}ib": 1024**i for i, letter in enumerate("kmgt", 1)}
"""Unit in lower case -> bytes."""


def parsed_size(text: str) -> int:
    """Parse the number of bytes of --ram; raises `InputError` if it is invalid or less than 1.

    >>> parsed_size("200MB"), parsed_size("1.5 GiB"), parsed_size("4096")
    (200000000, 1610612736, 4096)
    >>> parsed_size("many")
    Traceback (most recent call last):
    ...
    slimdex.indexes.errors.InputError: --ram 'many'; expected bytes, such as 200MB or 1.5GiB
    """
    found = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*+([a-zA-Z]*)\s*", text)
    unit = UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None or round(float(found[1]) * unit) < 1:
        raise InputError(f"--ram {text!r}; expected bytes, such as 200MB or 1.5GiB")
    return round(float(found[1]) * unit)
