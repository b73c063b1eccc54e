"""Dead code: functions, classes, constants and methods that nothing in source uses.

A function, class or constant of a module is used where its file reads it or another one imports it;
a method where any object has an attribute of its name. Tests are no users. Used without that are:
what a decorator registers, what may override a method of a library, what `slimdex` exports with its
public methods, and methods that the pages show (`.name(`).

`python -m tests.house.dead_code` prints a line for each that is left.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("indexes", "retrieval", "bench")
PUBLIC = "slimdex"
PLAIN_BASES = {"Protocol", "NamedTuple", "Generic", *dir(builtins)}
"""Bases that call no methods of names that we choose."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Uses:
    """Where names occur in the source, definitions and docstrings apart."""

    read: Counter[tuple[Path | None, str]] = field(default_factory=Counter)
    imported: set[tuple[str, str]] = field(default_factory=set)
    attributes: Counter[str] = field(default_factory=Counter)

    def add(self, path: Path | None, tree: ast.AST) -> Uses:
        """Count those of a part of a file; texts that are names count as attributes."""
        said = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name, ctx=ast.Load()):
                    self.read[path, name] += 1
                case ast.Attribute(attr=name, ctx=ast.Load()):
                    self.attributes[name] += 1
                case ast.ImportFrom(module=module, names=names):
                    stem = (module or "").rpartition(".")[2]
                    self.imported.update((stem, alias.name) for alias in names)
                case ast.Constant(value=str(text)) if id(node) not in said:
                    if re.fullmatch(r"[\w.:]+", text):
                        self.attributes.update(re.split(r"[.:]", text))
        return self


def dead(root: Path = ROOT) -> list[str]:
    """File, line and name of each definition that nothing uses."""
    trees = {path: ast.parse(path.read_text()) for path in source_files(root)}
    uses = Uses()
    for path, tree in trees.items():
        uses.add(path, tree)
    for page in (root / "README.md", *(root / "docs").rglob("*.md")):
        uses.attributes.update(re.findall(r"\.(\w+)\(", page.read_text() if page.exists() else ""))
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
    public = {
        name for path, tree in trees.items() if path.parent.name == PUBLIC for name in _names(tree)
    }
    found = list[tuple[Path, int, str]]()
    for path, tree in trees.items():
        found += [(path, *each) for each in _unused_of_module(path, tree, uses)]
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not _is_of_library(node, classes):
                unused = _unused_methods(node, uses, node.name in public)
                found += [(path, *each) for each in unused]
    return [f"{path.relative_to(root)}:{line}: {name}" for path, line, name in sorted(found)]


def source_files(root: Path) -> list[Path]:
    """The source of the project, each file once."""
    files = [path for package in PACKAGES for path in (root / package).rglob("*.py")]
    return sorted(files) + sorted((root / PUBLIC).glob("*.py"))


def _names(tree: ast.AST) -> Iterator[str]:
    """Names that a module of `slimdex` imports, or has as texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _unused_of_module(path: Path, tree: ast.Module, uses: Uses) -> Iterator[tuple[int, str]]:
    for node in tree.body:
        for name in _defined(node):
            own = Uses().add(path, node) if isinstance(node, Function | ast.ClassDef) else Uses()
            is_read = uses.read[path, name] > own.read[path, name]
            is_asked = uses.attributes[name] > own.attributes[name]
            if not (is_read or is_asked or (path.stem, name) in uses.imported):
                yield node.lineno, name


def _defined(node: ast.stmt) -> list[str]:
    """Names that a statement of a module defines for others."""
    if isinstance(node, Function | ast.ClassDef):
        return [] if _is_called_by_others(node) else [node.name]
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    return [name for name in names if not name.startswith("__")]


def _unused_methods(owner: ast.ClassDef, uses: Uses, is_public: bool) -> Iterator[tuple[int, str]]:
    for node in owner.body:
        if not isinstance(node, Function) or _is_called_by_others(node):
            continue
        if is_public and not node.name.startswith("_"):
            continue
        own = sum(
            isinstance(n, ast.Attribute) and n.attr == node.name and _is_self(n.value)
            for n in ast.walk(node)
        )
        if uses.attributes[node.name] <= own:
            yield node.lineno, node.name


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_called_by_others(node: Function | ast.ClassDef) -> bool:
    """Whether Python calls it, or an app or a router whose decorator it has."""
    calls = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    registered = any(isinstance(call, ast.Attribute | ast.Call) for call in calls)
    return registered or (node.name.startswith("__") and node.name.endswith("__"))


def _is_of_library(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether a class, or one that it is made from, has a base of a library."""
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        name = plain.id if isinstance(plain, ast.Name) else ""
        ours = classes.get(name)
        if ours is None and name not in PLAIN_BASES:
            return True
        if ours is not None and ours is not node and _is_of_library(ours, classes):
            return True
    return False


if __name__ == "__main__":
    print(*dead(), sep="\n")
