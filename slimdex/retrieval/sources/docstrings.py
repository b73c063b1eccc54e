"""Docstrings of the standard library or of an installed package, without importing it."""

from __future__ import annotations

import ast
import importlib.util
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from slimdex.errors import InputError

from ..documents import Document
from .files.input_files import Reading, stamp_of

PREFIX = "python:"
SKIPPED = {"site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip"}
"""Folders of the standard library without documentation for users."""

Node = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class PythonSource:
    """Source of the docstrings of public modules, classes and functions.

    ``python:`` is the standard library of this interpreter, ``python:numpy`` an installed
    package. Ids are qualified names; columns are ``module`` and ``kind``.
    """

    origin: None = None
    notes: Sequence[str] = ()

    def __init__(self, spec: str) -> None:
        self.name = spec
        self.place = spec
        package = spec.removeprefix(PREFIX)
        library = Path(sysconfig.get_paths()["stdlib"])
        self._files = sorted(_package_files(package) if package else _files_below(library, ""))
        if not self._files:
            raise InputError(f"{spec}: no Python files; expected a package, such as python:numpy")

    @property
    def fingerprint(self) -> str:
        """Digest of the interpreter's version and the files' names, sizes and times."""
        statuses = [path.stat() for _, path in self._files]
        files = [(status.st_size, status.st_mtime_ns) for status in statuses]
        changed_ns = max(changed_ns for _, changed_ns in files)
        return stamp_of(changed_ns, sys.version, self._files, files)

    def batches(self, reading: Reading = Reading()) -> Iterator[list[Document]]:
        """Yield the documents of one module at a time; ids are qualified names without prefix."""
        origin = reading.origin(self.fingerprint)
        seen = set[str]()
        for module, path in self._files:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SyntaxWarning)
                    tree = ast.parse(path.read_bytes())
            except (SyntaxError, ValueError):
                continue  # templates, or files for other versions

            # A name counts once, in the first module that has it.
            documents = _documents(tree, module, module, origin)
            unseen = {d.id: d for d in documents if d.id not in seen}
            seen.update(unseen)
            if unseen:
                yield list(unseen.values())


def _documents(node: Node, name: str, module: str, origin: str) -> Iterator[Document]:
    """Yield the docstrings of a node with this qualified name and of its public definitions."""
    if text := ast.get_docstring(node):
        kind = {ast.Module: "module", ast.ClassDef: "class"}.get(type(node), "function")
        metadata = {"module": module, "kind": kind}
        yield Document(name, text, title=name, metadata=metadata, origin=origin)
    if isinstance(node, ast.Module | ast.ClassDef):
        for child in _definitions(node):
            if not child.name.startswith("_"):
                yield from _documents(child, f"{name}.{child.name}", module, origin)


def _definitions(node: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield definitions in a body, including those within `if` or `try`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        elif isinstance(child, ast.If | ast.Try):
            yield from _definitions(child)


def _package_files(package: str) -> Iterator[tuple[str, Path]]:
    """Yield (module name, file) for the modules of a package or subpackage, or for one module."""
    try:
        spec = importlib.util.find_spec(package.split(".")[0])  # does not import it
    except ValueError:
        spec = None
    if spec is None:
        raise InputError(f"{PREFIX}{package}: package {package!r} is not installed")
    for folder in spec.submodule_search_locations or []:
        for name, path in _files_below(Path(folder), package.split(".")[0]):
            if name == package or name.startswith(package + "."):
                yield name, path
    if not spec.submodule_search_locations and spec.origin and spec.origin.endswith(".py"):
        yield package, Path(spec.origin)


def _files_below(root: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    """Yield (module name, file) of the public modules below a folder."""
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        names = [prefix, *parts] if prefix else list(parts)
        if not names or SKIPPED & set(parts) or any(p.startswith("_") for p in parts):
            continue
        yield ".".join(names), path
