"""Imports run one way: indexes < retrieval < bench, and inside a folder down its list."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("indexes", "retrieval", "bench")


def listed(package: str) -> list[str]:
    """The files of a package in order, as its `__init__` lists them."""
    text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
    found = re.search(r"import only files above them:\s*([\w,\s]+)\.", text)
    return re.findall(r"\w+", found[1]) if found else []


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """(package, file) of every import of ours in a file, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [path.parent.name, *(node.module or "").split(".")]
            names = [[*base[:1], a.name] for a in node.names] if not node.module else [base]
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").split(".")
            names = [[*base, a.name] for a in node.names] if len(base) == 1 else [base]
        elif isinstance(node, ast.Import):
            names = [a.name.split(".") for a in node.names]
        else:
            continue
        for name in names:
            if name[0] in PACKAGES and len(name) > 1:
                yield name[0], name[1]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_is_in_its_list(package: str) -> None:
    files = {p.stem for p in (ROOT / package).glob("*.py")} - {"__init__"}
    assert files == set(listed(package))


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_run_one_way(package: str) -> None:
    order = listed(package)
    for name in order:
        for where, what in imports(ROOT / package / f"{name}.py"):
            assert PACKAGES.index(where) <= PACKAGES.index(package), f"{package}/{name}: {where}"
            if where == package and what in order:
                assert order.index(what) < order.index(name), f"{package}/{name} imports {what}"


@pytest.mark.parametrize(
    ("library", "files"),
    [
        ("faiss", {"vector_index"}),
        (
            "duckdb",
            {
                "database",
                "own_columns",
                "schema",
                "store",
                "where",
                "readers",
                "tables",
                "given",
                "peers",
            },
        ),
    ],
)
def test_a_library_is_known_in_few_places(library: str, files: set[str]) -> None:
    pattern = re.compile(rf"^\s*(import|from) {library}\b", re.MULTILINE)
    found = {
        p.stem
        for package in PACKAGES
        for p in (ROOT / package).glob("*.py")
        if pattern.search(p.read_text())
    }
    assert found == files


def test_indexes_know_no_text_and_import_torch_late_if_at_all() -> None:
    for path in (ROOT / "indexes").glob("*.py"):
        text = path.read_text()
        assert not re.search(r"^\s*(import|from) transformers", text, re.M)
        assert not re.search(r"^(import|from) torch", text, re.M)
        assert path.stem == "autoencoder" or not re.search(r"^\s*(import|from) torch", text, re.M)
