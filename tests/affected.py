"""Leave out tests of services, clusters, frameworks, peers and exports that no change affects.

`pytest --affected`, which `make test` calls, runs a folder of `OPTIONAL` only if its tests import,
directly or through other modules, a file that differs from the main branch, committed or not.
Without git, as in a source archive, it runs none of them.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OPTIONAL = {
    "tests/bench/engines": ["bench/engines"],
    "tests/retrieval/cluster": ["retrieval/cluster"],
    "tests/retrieval/exporting": ["retrieval/exporting"],
    "tests/retrieval/integrations": [
        "retrieval/integrations",
        *(f"{name}.py" for name in ("haystack", "langchain", "llama_index", "mteb")),
    ],
    "tests/retrieval/server": ["retrieval/server"],
}
"""Folders of tests, and the source whose doctests go with them."""
STARTED = {"tests/retrieval/server": ["retrieval/cli"]}
"""Source that tests start in another process."""
COMMON = ["pyproject.toml", "setup.py", "tests/conftest.py"]
"""Files that affect every test."""
MAIN = ["origin/main", "main"]


def pytest_report_header(config: pytest.Config) -> list[str]:
    folders = sorted({*OPTIONAL} - affected()) if config.getoption("affected") else []
    return [f"not affected by changes since main: {', '.join(folders)}"] if folders else []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not config.getoption("affected") or not collection_path.is_relative_to(ROOT):
        return None
    place = collection_path.relative_to(ROOT).as_posix()
    for folder, sources in OPTIONAL.items():
        if place == folder or place.removeprefix("slimdex/") in sources:
            return None if folder in affected() else True
    return None


@cache
def affected() -> set[str]:
    """Folders of `OPTIONAL` that import a changed file."""
    files = changed()
    return {folder for folder in OPTIONAL if affects(files, folder)}


def affects(files: Iterable[str], folder: str, root: Path = ROOT) -> bool:
    """Report whether a folder's tests import one of these files, or data in a folder of one."""
    places = [folder, *OPTIONAL[folder], *STARTED.get(folder, [])]
    roots = [path for place in places for path in (root / place).rglob("*.py")]
    roots += [path for place in places if (path := root / "slimdex" / place).is_file()]
    reached = closure([*roots, root / "tests/conftest.py"], root)
    folders = {path.parent for path in reached}
    return any(
        file in COMMON
        or root / file in reached
        or (not file.endswith(".py") and folders & {*(root / file).parents})
        for file in files
    )


def closure(paths: Iterable[Path], root: Path = ROOT) -> set[Path]:
    """Files and everything of this repository that they import, wherever in a file."""
    reached, waiting = set[Path](), {*paths}
    while waiting:
        path = waiting.pop()
        reached.add(path)
        waiting |= imported(path, root) - reached
    return reached


@cache
def imported(path: Path, root: Path = ROOT) -> set[Path]:
    """Files of this repository that a file imports."""
    reached = set[Path]()
    here = path.parent.relative_to(root).parts
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            names = [module, *(f"{module}.{name}" for name in names)]
        for name in names:
            parts = name.split(".")
            short = parts[1:] if parts[0] == "slimdex" and len(parts) > 1 else parts
            for candidate in (root.joinpath(*short), root.joinpath(*parts)):
                found = [candidate.with_suffix(".py"), candidate / "__init__.py"]
                reached |= {file for file in found if file.is_file()}
    return reached


def changed(root: Path = ROOT) -> list[str]:
    """Paths that differ from the main branch; a deleted or an unnamed file counts as well."""

    def git(*words: str) -> list[str]:
        made = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
        return made.stdout.splitlines()

    if not git("rev-parse", "--git-dir"):
        return []
    base = next((found for name in MAIN if (found := git("merge-base", "HEAD", name))), None)
    if base is None:
        return [*COMMON]  # nothing to compare to, as in a shallow clone
    new = git("ls-files", "--others", "--exclude-standard")
    return [*git("diff", "--name-only", *base), *new]
