"""Ignored files: what the `.gitignore` files around and below a folder say."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from .ignore_rules import IgnoreRules
from .limits import LARGEST_RULES, UnreadableError

NAME = ".gitignore"


class Ignored:
    """Rules of a folder and of those around it, up to the one that git manages.

    Parameters
    ----------
    rules : each with what a path below the walked folder gets before it, and how many characters
        are first taken off, to begin at the rules' own folder.
    """

    def __init__(self, rules: list[tuple[str, int, IgnoreRules]]) -> None:
        self._rules = rules

    @classmethod
    def around(cls, root: Path) -> Ignored:
        """Rules for a folder that is to be walked; none of them can ignore the folder itself.

        Raises
        ------
        UnreadableError
            If a `.gitignore` has more than `LARGEST_RULES` bytes; so does `within`.
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
        """The rules that hold in a folder below, by its path from the one that is walked."""
        if found := _rules(folder):
            return Ignored([*self._rules, ("", len(relative), found)])
        return self

    def has(self, relative: str, *, is_folder: bool) -> bool:
        """Whether a path below the folder that is walked is ignored: the nearest rule counts."""
        for before, cut, rules in reversed(self._rules):
            path = f"{before}{relative[cut:]}".removesuffix("/")
            if (ignores := rules.decision(path, is_folder=is_folder)) is not None:
                return ignores
        return False


def _rules(folder: Path) -> IgnoreRules | None:
    """A folder's own rules; None if it has none."""
    with suppress(OSError):
        path = folder / NAME
        if path.is_file():
            with path.open("rb") as file:
                data = file.read(LARGEST_RULES + 1)
            if len(data) > LARGEST_RULES:
                raise UnreadableError(f"{path} is over {LARGEST_RULES >> 10} KiB")
            return IgnoreRules(data)
    return None
