"""A model's folder: what in it would have transformers run code, read elsewhere or never end.

Checked before transformers opens any of it. Links are followed: the hub's own cache is made of
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slimdex.indexes.errors import InputError
from slimdex.indexes.json_text import parsed

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")
"""Weights that could run code when they are read, or are no safetensors."""
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
MOST_LAYERS = 1000
LARGEST = 1 << 24
"""Any other whole number in a configuration: words, positions and widths stay far below."""


def check_model_folder(folder: Path) -> None:
    """Raise `InputError` for a folder that asks for more than a network and its weights.

    Code of the folder's own (`auto_map`) is transformers' to refuse, unless it is trusted.
    """
    if not any(folder.glob("*.safetensors")):
        pickles = sorted(path.name for kind in PICKLES for path in folder.glob(kind))
        why = f" ({pickles[0]} is not read: it could run code)" if pickles else ""
        raise InputError(f"model {str(folder)!r}: no model.safetensors in that folder{why}")
    if (folder / ADAPTER).exists():
        raise InputError(f"{folder / ADAPTER}: an adapter of another model; expected a whole one")
    if (folder / INDEX).exists():
        _check_index(folder / INDEX)
    if (folder / "config.json").exists():
        for key, value in _items(read_json(folder / "config.json")):
            _check_item(folder / "config.json", key, value)


def read_json(path: Path, expected: type = dict) -> Any:
    """A JSON file whose top is of a type; raises `InputError` for anything else."""
    try:
        found = parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}; expected JSON") from error
    if not isinstance(found, expected):
        raise InputError(f"{path}: {type(found).__name__}; expected a JSON {expected.__name__}")
    return found


def _check_index(path: Path) -> None:
    names = read_json(path).get("weight_map")
    for name in names.values() if isinstance(names, dict) else [names]:
        if not isinstance(name, str) or Path(name).name != name:
            raise InputError(f"{path}: weights in {name!r}; expected files of the folder")


def _check_item(path: Path, key: str, value: Any) -> None:
    # A name with a slash is a repository, whose compiled code transformers would fetch and load.
    if key.endswith("_implementation") and "/" in json.dumps(value):
        raise InputError(f"{path}: {key} {value!r}; expected one of transformers' own")
    if isinstance(value, int) and abs(value) > (MOST_LAYERS if "layer" in key else LARGEST):
        raise InputError(f"{path}: {key}={value}; expected a model's size")


def _items(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every key with its value, however deep."""
    waiting = [(key, value)]
    while waiting:
        key, value = waiting.pop()
        yield key, value
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, item) for item in value]
