"""Definition: the place and name of a function or class."""

from __future__ import annotations

from typing import NamedTuple


class Definition(NamedTuple):
    """First and last line of a class or function, from 1; the last is 0 if unknown.

    Attributes
    ----------
    level : 1 for outermost ones.
    """

    line: int
    end: int
    level: int
    name: str
