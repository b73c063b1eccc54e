"""Formulas of office files: the signs that are elements or attributes, written on one line."""

from __future__ import annotations

from collections.abc import Mapping

from ...archives import attribute

OBJECTS = frozenset([
    "acc", "bar", "borderBox", "box", "d", "eqArr", "f", "func", "groupChr", "limLow", "limUpp",
    "m", "nary", "phant", "rad", "sPre", "sSub", "sSubSup", "sSup",
])  # fmt: skip
SIGNS = ("chr", "begChr", "sepChr", "endChr")
"""Properties of an object that are characters."""
USUAL = {"d": {"begChr": "(", "sepChr": "|", "endChr": ")"}, "nary": {"chr": "∫"}}
SCRIPTS = {"sub": "_", "sup": "^"}
"""Elements whose text follows a sign, unless it is empty."""


class Formula:
    """Signs of a formula at the start or end of its elements, which are in order.

    >>> formula = Formula()
    >>> for name in ("d", "e", "f"):
    ...     print(formula.start(name, {}), end="")
    (
    >>> for name in ("num", "f", "e", "d"):
    ...     print(formula.end(name), end="")
    /)
    """

    def __init__(self) -> None:
        self._open = list[tuple[str, dict[str, str]]]()

    def start(self, name: str, attributes: Mapping[str, str]) -> str:
        """Sign at the start of an element; "" if it has none."""
        if name in OBJECTS:
            self._open.append((name, dict(USUAL.get(name, {}))))
            return ""
        within, signs = self._open[-1] if self._open else ("", {})
        if name in SIGNS:
            signs[name] = attribute(attributes, "val")
        if within == "d" and name == "e":
            begin, signs["begChr"] = signs["begChr"], signs["sepChr"]
            return begin
        if within == "nary" and name in ("e", *SCRIPTS):
            return signs.pop("chr", "")
        return "√" if within == "rad" and name == "e" else ""

    def end(self, name: str) -> str:
        """Sign at the end of an element; "" if it has none."""
        if name in OBJECTS and self._open:
            _, signs = self._open.pop()
            return signs.get("endChr", "") if name == "d" else ""
        return "/" if name == "num" else ""
