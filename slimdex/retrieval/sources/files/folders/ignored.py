"""Ignored files, by the `.gitignore` files around and below a folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ..limits import LARGEST_RULES, UnreadableError
from .ignore_rules import IgnoreRules

NAME = ".gitignore"


class Ignored:
    """Rules of a folder and its parents, up to the repository's root.

    Parameters
    ----------
    rules : (prefix, skip, rules): paths relative to the walked folder lose `skip` characters and
        get `prefix`, to be relative to the folder of the rules.
    """

    def __init__(self, rules: list[tuple[str, int, IgnoreRules]]) -> None:
        self._rules = rules

    @classmethod
    def around(cls, root: Path) -> Ignored:
        """Load the rules for walking a folder, which itself is never ignored.

        Raises `UnreadableError` if a `.gitignore` has more than `LARGEST_RULES` bytes; also raised
        by `within`.
        """
        above = [root, *root.parents]
        managed = next((i for i, folder in enumerate(above) if (folder / ".git").exists()), 0)
        rules = []
        for folder in above[managed:0:-1]:
            if found := _rules(folder):
                rules.append((f"{root.relative_to(folder).as_posix()}/", 0, found))
        around = cls(rules)
        return cls([]) if around.has("", is_folder=True) else around

    def within(self, folder: Path, relative: str) -> Ignored:
        """Add the rules of a subfolder, given by its path relative to the walked folder."""
        if found := _rules(folder):
            return Ignored([*self._rules, ("", len(relative), found)])
        return self

    def has(self, relative: str, *, is_folder: bool) -> bool:
        """Return whether a path within the walked folder is ignored; the nearest rule decides."""
        for before, cut, rules in reversed(self._rules):
            path = f"{before}{relative[cut:]}".removesuffix("/")
            if (ignores := rules.decision(path, is_folder=is_folder)) is not None:
                return ignores
        return False


def _rules(folder: Path) -> IgnoreRules | None:
    """Load a folder's own rules; None if it has none."""
    with suppress(OSError):
        path = folder / NAME
        if path.is_file():
            with path.open("rb") as file:
                data = file.read(LARGEST_RULES + 1)
            if len(data) > LARGEST_RULES:
                raise UnreadableError(f"{path} is over {LARGEST_RULES >> 10} KiB")
            return IgnoreRules(data)
    return None
