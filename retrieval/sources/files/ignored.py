"""Ignored files: what `.gitignore` files say, as git reads them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

NAME = ".gitignore"
LARGEST = 1 << 20
"""Bytes of such a file that are read."""


class Ignored:
    """Rules of a folder and of those around it, up to the one that git manages."""

    def __init__(self, rules: list[tuple[str, Any]]) -> None:
        self._rules = rules

    @classmethod
    def around(cls, root: Path) -> Ignored:
        """Rules for a folder that is to be walked; none of them can ignore the folder itself."""
        above = [root, *root.parents]
        managed = next((i for i, folder in enumerate(above) if (folder / ".git").exists()), 0)
        rules = []
        for folder in above[managed:0:-1]:
            if spec := _spec(folder):
                rules.append((f"{root.relative_to(folder).as_posix()}/", spec))
        around = cls(rules)
        return cls([]) if around.has("", is_folder=True) else around

    def within(self, folder: Path, relative: str) -> Ignored:
        """The rules that hold in a folder below, by its path from the one that is walked."""
        if spec := _spec(folder):
            return Ignored([*self._rules, (relative, spec)])
        return self

    def has(self, relative: str, *, is_folder: bool) -> bool:
        """Whether a path below the folder that is walked is ignored: the nearest rule counts."""
        end = "/" if is_folder and relative else ""
        for place, spec in reversed(self._rules):
            if place.startswith("../") or not relative.startswith(place):
                path = f"{place}{relative}{end}"
            else:
                path = f"{relative[len(place) :]}{end}"
            found = spec.check_file(path).include
            if found is not None:
                return bool(found)
        return False


def _spec(folder: Path) -> Any:
    """A folder's own rules; None if it has none."""
    with suppress(OSError):
        path = folder / NAME
        if path.is_file():
            with path.open("rb") as file:
                lines = file.read(LARGEST).decode("utf-8", "replace").splitlines()
            return _parsed(lines)
    return None


def _parsed(lines: list[str]) -> Any:
    from pathspec import GitIgnoreSpec

    with suppress(ValueError):
        return GitIgnoreSpec.from_lines(lines)
    rules = []
    for line in lines:  # one that can't be understood ignores nothing
        with suppress(ValueError):
            GitIgnoreSpec.from_lines([line])
            rules.append(line)
    return GitIgnoreSpec.from_lines(rules)
