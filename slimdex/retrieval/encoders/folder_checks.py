"""Safety checks of a model's folder before transformers opens it.

They refuse contents that would run code, read files elsewhere or exhaust memory. Links are
followed, since the hub's cache consists of links.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slimdex.indexes.errors import InputError
from slimdex.indexes.json_text import parsed

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")
"""Weight files that could run code when read, or are not safetensors."""
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
MOST_LAYERS = 1000
LARGEST = 1 << 24
"""Limit of other integers in a configuration; vocabularies and widths are far smaller."""


def check_model_folder(folder: Path) -> None:
    """Raise `InputError` for a folder with more than a network and its weights.

    Custom code (`auto_map`) is refused by transformers, unless trusted.
    """
    if not any(folder.glob("*.safetensors")):
        pickles = sorted(path.name for kind in PICKLES for path in folder.glob(kind))
        why = f" ({pickles[0]} is not read: it could run code)" if pickles else ""
        raise InputError(f"model {str(folder)!r}: no model.safetensors in that folder{why}")
    if (folder / ADAPTER).exists():
        raise InputError(
            f"{folder / ADAPTER}: an adapter of another model; expected a complete model"
        )
    if (folder / INDEX).exists():
        _check_index(folder / INDEX)
    if (folder / "config.json").exists():
        for key, value in _items(read_json(folder / "config.json")):
            _check_item(folder / "config.json", key, value)


def read_json(path: Path, expected: type = dict) -> Any:
    """Read a JSON file of an expected type; raise `InputError` for anything else."""
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
            raise InputError(f"{path}: weights in {name!r}; expected files in the folder")


def _check_item(path: Path, key: str, value: Any) -> None:
    # A slash names a repository, whose compiled code transformers would download and load.
    if key.endswith("_implementation") and "/" in json.dumps(value):
        raise InputError(f"{path}: {key} {value!r}; expected one of transformers' own")
    most = MOST_LAYERS if "layer" in key else LARGEST
    if isinstance(value, int) and abs(value) > most:
        raise InputError(f"{path}: {key}={value}; expected at most {most}")


def _items(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key with its value, at any depth."""
    waiting = [(key, value)]
    while waiting:
        key, value = waiting.pop()
        yield key, value
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, item) for item in value]
