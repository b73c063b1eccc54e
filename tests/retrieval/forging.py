"""Manifests as a stranger would forge them: with valid checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slimdex.retrieval.store.log import Log, pack
from slimdex.retrieval.store.manifest import DIGEST, Manifest
from slimdex.retrieval.store.state import LogFiles
from slimdex.system.atomic_files import sha256
from slimdex.system.index_names import MANIFEST


def rewrite(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the JSON of the manifest."""
    path = folder / MANIFEST
    body = json.dumps(change(json.loads(path.read_bytes()[DIGEST:]))).encode()
    path.write_bytes(hashlib.sha256(body).digest() + body)


def rewrite_state(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the state in the manifest."""
    rewrite(folder, lambda it: it | {"state": json.dumps(change(json.loads(it["state"])))})


def forge(folder: Path) -> None:
    """Give the manifest the sizes and checksums of the files of columns as they are."""

    def changed(state: dict[str, Any]) -> dict[str, Any]:
        for file in state["column_files"]:
            path = folder / file["name"]
            file |= {"bytes": path.stat().st_size, "sha256": sha256(path)}
        return state

    rewrite_state(folder, changed)


def rewrite_records(folder: Path, change: Callable[[int, bytes], bytes]) -> None:
    """Write another log, with each document's record, by its first row, as `change` returns it."""
    manifest = Manifest.read(folder)
    state = manifest.state
    rows = manifest.document_rows.first_rows(np.arange(state.rows))
    counts = manifest.document_rows.counts_of(rows).tolist()
    old = Log(folder, state.log, state.rows).read(rows.tolist())
    records = [change(row, record) for row, record in old.items()]
    names = LogFiles("documents-999999.log", "offsets-999999.bin")
    log = Log(folder, names, 0).append(pack(zip(records, counts, strict=True)))
    state = replace(state, log=log.state)
    checksums = {**manifest.checksums, **{each.path.name: each.checksums() for each in log.files}}
    replace(manifest, state=state, checksums=checksums).write(folder / MANIFEST)
