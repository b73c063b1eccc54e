"""Finding: one line of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Name and value of one fact and, if it is a problem, its remedy in one line."""

    name: str
    value: str
    remedy: str | None = None


def in_units(count: float) -> str:
    """Bytes in a readable unit.

    >>> in_units(0), in_units(1_500), in_units(23_456_789), in_units(8.1e10)
    ('0 B', '2 kB', '23 MB', '81 GB')
    """
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.0f} GB"
