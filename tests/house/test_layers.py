"""Imports run one way: indexes < retrieval < bench, and inside every folder down its list.

The order stands in the docstring of each folder's `__init__`, which names its files and
sub-folders from the lowest to the highest.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("indexes", "retrieval", "bench")
FOLDERS = sorted(
    path.parent.relative_to(ROOT)
    for package in PACKAGES
    for path in (ROOT / package).rglob("__init__.py")
)
FILES = sorted(
    path.relative_to(ROOT)
    for folder in FOLDERS
    for path in (ROOT / folder).glob("*.py")
    if path.name != "__init__.py"
)


def listed(folder: Path) -> list[str]:
    """What is in a folder, in order, as its `__init__` lists it."""
    text = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text())) or ""
    found = re.search(r"import only what is above (?:it|them):\s*([\w,\s]+)\.", text)
    return re.findall(r"\w+", found[1]) if found else []


def imports(path: Path) -> Iterator[tuple[str, ...]]:
    """The parts of each import of ours in a file, wherever in it: folders, file, perhaps a name."""
    here = path.parent.parts
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = (*here[: len(here) - node.level + 1], *filter(None, [node.module]))
            found = [".".join((*base, alias.name)) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            continue
        for name in found:
            parts = tuple(name.removeprefix("slimdex.").split("."))
            if parts[0] in PACKAGES:
                yield parts


def test_there_is_something_to_look_at() -> None:
    """A folder that were missed would pass without a sound."""
    assert len(FOLDERS) == 63
    assert len(FILES) == sum(1 for p in PACKAGES for f in (ROOT / p).rglob("*.py")) - len(FOLDERS)
    assert ("indexes", "errors", "InputError") in set(imports(Path("retrieval/catalog/store.py")))
    assert ("retrieval", "sql", "identifier") in set(
        imports(Path("retrieval/catalog/document_ids.py"))
    )


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_everything_is_in_its_folders_list(folder: Path) -> None:
    files = {p.stem for p in (ROOT / folder).glob("*.py")}
    rooms = {p.parent.name for p in (ROOT / folder).glob("*/__init__.py")}
    order = listed(folder)
    assert sorted(order) == sorted((files | rooms) - {"__init__"})


@pytest.mark.parametrize("file", FILES, ids=str)
def test_imports_run_one_way(file: Path) -> None:
    here = (*file.parent.parts, file.stem)
    for there in imports(file):
        common = next(
            (i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), None
        )
        if common is None:
            raise AssertionError(f"{file} imports itself")
        if common == 0:
            assert PACKAGES.index(there[0]) < PACKAGES.index(here[0]), f"{file} imports {there}"
            continue
        order = listed(Path(*here[:common]))
        assert there[common] in order, f"{file} imports {there}, from an __init__"
        assert order.index(there[common]) < order.index(here[common]), f"{file} imports {there}"


@pytest.mark.parametrize(
    ("library", "files"),
    [
        ("faiss", {"indexes/codes/faiss_calls", "indexes/codes/faiss_index"}),
        (
            "duckdb",
            {
                "bench/engines/peer_databases",
                "retrieval/catalog/column_fit",
                "retrieval/catalog/catalog_file",
                "retrieval/catalog/database",
                "retrieval/catalog/documents_table",
                "retrieval/catalog/duckdb_connection",
                "retrieval/catalog/metadata_columns",
                "retrieval/catalog/schema",
                "retrieval/catalog/store",
                "retrieval/catalog/where/checks",
                "retrieval/catalog/where/parsing",
                "retrieval/sources/tabular/databases",
                "retrieval/duckdb_library",
                "retrieval/sources/tabular/duckdb_readers",
                "retrieval/sources/given_vectors",
                "retrieval/sources/tabular/records",
                "retrieval/sources/tabular/tables",
            },
        ),
        (
            "pymilvus",
            {"retrieval/cluster/milvus_server", "retrieval/cluster/milvus_schema"},
        ),
    ],
)
def test_a_library_is_known_in_few_places(library: str, files: set[str]) -> None:
    pattern = re.compile(rf"^\s*(import|from) (\.+{library}_library|{library})\b", re.MULTILINE)
    found = {str(p.with_suffix("")) for p in FILES if pattern.search((ROOT / p).read_text())}
    assert found == files


def test_indexes_know_no_text_and_import_torch_late_if_at_all() -> None:
    for path in (p for p in FILES if p.parts[0] == "indexes"):
        text = (ROOT / path).read_text()
        assert not re.search(r"^\s*(import|from) transformers", text, re.M)
        assert not re.search(r"^(import|from) torch", text, re.M)
        trained = path.stem in ("training_rows", "autoencoder", "flow_steps", "flow")
        assert trained or not re.search(r"^\s*(import|from) torch", text, re.M)


def test_only_two_files_import_torch_at_once() -> None:
    """They are imported late; the rest works without the extra `torch`."""
    pattern = re.compile(r"^(import|from) (torch|transformers)\b", re.MULTILINE)
    found = {str(path) for path in FILES if pattern.search((ROOT / path).read_text())}
    assert found == {
        "retrieval/encoders/runtimes/torch_runtime.py",
        "retrieval/exporting/onnx_networks.py",
    }
