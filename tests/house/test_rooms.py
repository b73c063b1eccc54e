"""Folders stay small: at most 12 files, and no chain of imports over more than 6 of them.

A chain counts files of one folder, each of which imports the next; `__init__` and sub-folders do
not count. The rooms of `retrieval` form a line of their own, which `test_layers` checks.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from .test_layers import FILES, FOLDERS, ROOT, imports

MOST_FILES, MOST_FLOORS = 12, 6
UNRELATED = {"tests/figures/pages"}
"""Folders of tests with a file for each page of the documentation."""
TESTS = sorted(path.parent.relative_to(ROOT) for path in (ROOT / "tests").rglob("__init__.py"))


@pytest.mark.parametrize("folder", [*FOLDERS, *TESTS], ids=str)
def test_a_folder_has_few_files(folder: Path) -> None:
    files = sorted(path.stem for path in (ROOT / folder).glob("*.py"))
    few = len(files) - 1 <= MOST_FILES  # without `__init__`
    assert few or folder.as_posix() in UNRELATED, f"{folder}: {', '.join(files)}"


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_folder_has_few_floors(folder: Path) -> None:
    chain = max((chain_from(file) for file in FILES if file.parent == folder), key=len, default=())
    assert len(chain) <= MOST_FLOORS, f"{folder}: {' imports '.join(chain)}"


@cache
def chain_from(file: Path) -> tuple[str, ...]:
    """Return the longest chain of imports that starts at a file and stays in its folder."""
    here = (*file.parent.parts,)
    below = {
        there[len(here)]
        for there in imports(file)
        if there[: len(here)] == here and len(there) > len(here)
    }
    files = [file.with_name(f"{name}.py") for name in below]
    chains = [chain_from(other) for other in files if other in FILES and other != file]
    return (file.stem, *max(chains, key=len, default=()))


def test_a_chain_is_followed_to_its_end() -> None:
    assert chain_from(Path("indexes/errors.py")) == ("errors",)
    assert chain_from(Path("indexes/ranking.py")) == ("ranking", "arrays", "errors")
