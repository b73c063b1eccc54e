"""Private names stay private, and functions and files short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_private_names import TURBOQUANT

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path.relative_to(ROOT)
    for package in ("indexes", "retrieval", "bench", "slimdex")
    for path in (ROOT / package).rglob("*.py")
)
OF_LIBRARIES = {"_exit", "_asdict", *TURBOQUANT}
"""`os._exit`, `NamedTuple._asdict`, and those of `tests/house/test_private_names.py`."""
LONGEST_FUNCTION, LONGEST_FILE = 60, 400
"""Lines."""


def foreign(tree: ast.AST, own: frozenset[str] = frozenset()) -> Iterator[ast.Attribute]:
    """Private attributes that are read of other objects than those of the class around them."""
    for node in ast.iter_child_nodes(tree):
        names = own | defined(node) if isinstance(node, ast.ClassDef) else own
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own(node, own):
            yield node
        yield from foreign(node, names)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def is_own(node: ast.Attribute, own: frozenset[str]) -> bool:
    match node.value:
        case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")):
            return True
    return node.attr in own


def defined(node: ast.ClassDef) -> frozenset[str]:
    """Names of a class's methods and fields, and of the attributes that it sets on `self`."""
    found = set[str]()
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                found.add(name)
    return frozenset(found)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_private_names_stay_private(path: Path) -> None:
    tree = ast.parse((ROOT / path).read_text())
    found = [f"{path}:{node.lineno}: {ast.unparse(node)}" for node in foreign(tree)]
    assert [line for line in found if line.rpartition(".")[2] not in OF_LIBRARIES] == []


def test_what_counts_as_private() -> None:
    source = """
class One:
    _field: int
    def __init__(self): self._set = self._set.other
    def copy(self, other): return other._set + other._field + other._method(), other._foreign
    def _method(self): super()._inherited
def outside(one): return one._set, one.__class__
"""
    assert [node.attr for node in foreign(ast.parse(source))] == ["_foreign", "_set"]


def test_functions_are_short() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = length(node)
                assert lines <= LONGEST_FUNCTION, f"{path}: {node.name} has {lines} lines"


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's body, its docstring apart."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_files_are_short() -> None:
    for path in FILES:
        lines = len((ROOT / path).read_text().splitlines())
        assert lines <= LONGEST_FILE, f"{path} has {lines} lines"
