"""Extras: the command that installs a missing library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from slimdex.errors import InputError

MODULES = {
    "export": ("pyarrow",),
    "peers": (
        *("apsw", "chromadb", "hnswlib", "lancedb", "onnx"),
        *("onnxruntime", "pyarrow", "qdrant_edge", "rabitqlib", "sqlite_vec", "usearch"),
    ),
    "bench": ("scipy",),
    "files": (
        *("backports", "charset_normalizer", "dateutil", "lxml", "markdown_it", "pypdfium2"),
        *("python_calamine", "selectolax", "watchfiles", "yaml"),
    ),
    "code": (
        "tree_sitter",
        *("tree_sitter_bash", "tree_sitter_c", "tree_sitter_c_sharp", "tree_sitter_cpp"),
        *("tree_sitter_go", "tree_sitter_haskell", "tree_sitter_java", "tree_sitter_javascript"),
        *("tree_sitter_julia", "tree_sitter_kotlin", "tree_sitter_lua", "tree_sitter_objc"),
        *("tree_sitter_php", "tree_sitter_powershell", "tree_sitter_python", "tree_sitter_ruby"),
        *("tree_sitter_rust", "tree_sitter_scala", "tree_sitter_swift", "tree_sitter_typescript"),
    ),
    "serve": (
        *("anyio", "fastapi", "fastapi_offline", "httptools", "mcp", "prometheus_client"),
        *("pydantic", "pydantic_core", "starlette", "uvicorn", "uvloop"),
    ),
    "languages": ("py3langid",),
    "torch": ("torch", "transformers", "sentence_transformers"),
    "cluster": ("grpc", "milvus_lite", "pymilvus", "ray"),
    "minilm": ("pip",),
    "langchain": ("langchain_core",),
    "llama-index": ("llama_index",),
    "haystack": ("haystack",),
    "mteb": ("datasets", "mteb"),
}
"""Extra -> modules that it installs."""


def install_command(extra: str) -> str:
    """Command that installs an extra of the slimdex that is installed, also from a checkout.

    >>> install_command("serve")
    "pip install 'slimdex[serve]'"
    """
    return f"pip install 'slimdex[{extra}]'"


def extra_of(module: str | None) -> str | None:
    """The extra that installs a module; None if none does."""
    name = (module or "").partition(".")[0]
    return next((extra for extra, modules in MODULES.items() if name in modules), None)


def require(what: str, extra: str, *modules: str) -> None:
    """Raise `InputError` unless modules of an extra, by default all, are installed.

    Nothing is imported. The message says what requires them.
    """
    missing = [name for name in modules or MODULES[extra] if not _is_installed(name)]
    if missing:
        raise InputError(f"{what} requires {', '.join(missing)}: {install_command(extra)}")


@contextmanager
def missing_extras_explained() -> Iterator[None]:
    """Raise `InputError` with the command to type if a library of an extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "slimdex":
            raise  # a bug, not something to install
        extra = extra_of(error.name)
        advice = install_command(extra) if extra else "no extra of slimdex brings it"
        raise InputError(f"{error}: {advice}") from error


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # sys.modules has None for it, or it has no spec
        return False
