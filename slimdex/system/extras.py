"""Extras: the command that installs a missing library, for this installation of slimdex."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from slimdex.errors import InputError

SOURCE_ROOT = Path(__file__).parents[2]
MODULES = {
    "export": ("pyarrow",),
    "peers": (
        *("apsw", "chromadb", "hnswlib", "lancedb", "onnx"),
        *("onnxruntime", "pyarrow", "qdrant_edge", "rabitqlib"),
        *("sqlite_vec", "usearch"),
    ),
    "bench": ("scipy",),
    "files": (
        *("backports", "charset_normalizer", "lxml", "markdown_it", "pypdfium2", "python_calamine"),
        *("selectolax", "watchfiles", "yaml"),
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
    "torch": ("sentence_transformers", "torch", "transformers"),
    "cluster": ("grpc", "milvus_lite", "pymilvus", "ray"),
    "minilm": ("pip",),
    "langchain": ("langchain_core",),
    "llama-index": ("llama_index",),
    "haystack": ("haystack",),
    "mteb": ("datasets", "mteb"),
}
"""Extra -> modules that it installs."""


def install_command(extra: str) -> str:
    """Command that installs an extra, from the same checkout or package."""
    folder, editable = _source()
    if folder is None:
        return f"pip install {quote(f'slimdex[{extra}]')}"
    checkout = "." if folder == Path.cwd() else str(folder)
    option = "-e " if editable else ""
    return f"pip install {option}{quote(f'{checkout}[{extra}]')}"


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


def _source() -> tuple[Path | None, bool]:
    """Folder of the checkout that slimdex is installed from, if any, and whether it is editable."""
    # These take longer to import than all of this folder.
    from importlib.metadata import distributions
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    for distribution in distributions(name="slimdex"):
        record = distribution.read_text("direct_url.json")
        if not record:  # a checkout's own egg-info, found first, has none
            continue
        source = json.loads(record)
        if "dir_info" not in source:  # installed from an archive or a repository
            return None, False
        folder = Path(url2pathname(urlsplit(source["url"]).path))
        editable = bool(source["dir_info"].get("editable"))
        return (folder, editable) if (folder / "pyproject.toml").exists() else (None, False)

    # Without a record, this file may be in a checkout that Python imports from.
    is_checkout = (SOURCE_ROOT / "pyproject.toml").exists()
    return (SOURCE_ROOT if is_checkout else None), False
