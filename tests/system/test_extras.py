"""Every library that may be missing has an extra that brings it."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from slimdex.system.extras import MODULES, extra_of

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMED_OTHERWISE = {"qdrant_edge": "qdrant-edge-py"}
BROUGHT_BY_THESE = {
    *("anyio", "pydantic", "pydantic-core", "starlette"),
    *("datasets", "grpcio", "markupsafe"),
}
"""Packages that those of the extras need, and slimdex imports."""
ALWAYS = {"slimdex", "huggingface_hub", "_duckdb"}
"""Modules that cannot be missing, beside those of what slimdex needs itself."""
IMPORT = re.compile(r"^ *(?:import (\w+)|from (\w+)[\w.]* import )", re.MULTILINE)


def extras() -> dict[str, set[str]]:
    """The extras that slimdex imports from: all but `test` and `docs`, and their packages."""
    return {
        extra: {package(line) for line in lines} - {"slimdex"}
        for extra, lines in PROJECT["optional-dependencies"].items()
        if extra not in ("test", "small", "docs")
    }


def package(requirement: str) -> str:
    """A package's name, as it is compared.

    >>> package("qdrant_edge.py>=0.5")
    'qdrant-edge-py'
    """
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!\[; ]", requirement)[0]).lower()


@cache
def installed() -> Mapping[str, list[str]]:
    return packages_distributions()


def packages_of(module: str) -> set[str]:
    """The packages that may bring a module: those that do where it is installed."""
    found = installed().get(module, ())
    return {package(name) for name in found} or {package(NAMED_OTHERWISE.get(module, module))}


def test_every_module_names_the_extra_that_brings_it() -> None:
    brought = extras()
    assert set(MODULES) == set(brought)
    for extra, packages in brought.items():
        ours = set().union(*map(packages_of, MODULES[extra]))
        elsewhere = set().union(*map(packages_of, MODULES["peers"]))
        assert packages <= ours | elsewhere, extra
        assert ours - packages <= BROUGHT_BY_THESE, extra


def test_every_library_that_is_imported_has_an_extra() -> None:
    """But for those that slimdex can't be installed without."""
    files = (ROOT / "slimdex").rglob("*.py")
    imported = {
        name for file in files for pair in IMPORT.findall(file.read_text()) for name in pair
    }
    always = {package(line) for line in PROJECT["dependencies"]}
    others = imported - sys.stdlib_module_names - ALWAYS - {""}
    optional = {name for name in others if not packages_of(name) & always}
    assert {"watchfiles", "fastapi", "pymilvus"} < optional
    assert {name for name in optional if extra_of(name) is None} == set()
