"""Semantic search in a fraction of the memory.

>>> import slimdex
>>> "Collection" in slimdex.__all__
True

Of its subpackages, `indexes` knows numbers, `retrieval` knows documents, and `bench` runs
experiments on both. Programs import the names that `__init__.pyi` lists.
"""

from importlib import import_module
from pathlib import Path
from typing import Any


def _read_homes() -> dict[str, str]:
    """Public names -> modules that define them, from the imports of the stub."""
    stub = Path(__file__).with_name("__init__.pyi").read_text(encoding="utf-8")
    imports = [line.split() for line in stub.splitlines() if line.startswith("from .")]
    return {words[-1]: words[1] for words in imports}  # from MODULE import NAME as NAME


_HOMES = _read_homes()
__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    """Load a public name at its first use: `slimdex --help` must not wait for FAISS and DuckDB."""
    if name == "__version__":
        from importlib.metadata import version  # slow to import

        return version("slimdex")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
