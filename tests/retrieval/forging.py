"""Manifests as a stranger would forge them: with valid checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slimdex.retrieval.store.manifest import DIGEST
from slimdex.retrieval.store.row_file import LENGTH
from slimdex.system.atomic_files import sha256
from slimdex.system.index_names import MANIFEST


def rewrite(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the JSON of the manifest."""
    path = folder / MANIFEST
    data = path.read_bytes()[DIGEST:]
    stop = LENGTH + int.from_bytes(data[:LENGTH], "little")
    header = json.dumps(change(json.loads(data[LENGTH:stop]))).encode()
    body = len(header).to_bytes(LENGTH, "little") + header + data[stop:]
    path.write_bytes(hashlib.sha256(body).digest() + body)


def rewrite_state(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the state in the manifest."""
    rewrite(folder, lambda it: it | {"state": json.dumps(change(json.loads(it["state"])))})


def forge(folder: Path) -> None:
    """Give the manifest the sizes and checksums of the segments as they are."""

    def changed(state: dict[str, Any]) -> dict[str, Any]:
        for segment in state["segments"]:
            path = folder / segment["name"]
            segment |= {"bytes": path.stat().st_size, "sha256": sha256(path)}
        return state

    rewrite_state(folder, changed)
