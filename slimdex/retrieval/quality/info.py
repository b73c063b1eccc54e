"""Info: contents, settings and sizes of an index, and advice if it has outgrown its fit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from slimdex.indexes.arrays import without
from slimdex.indexes.codes.kinds import FLAT, by_size
from slimdex.indexes.options import AUTO
from slimdex.system.atomic_files import size

from ..documents import visible_columns
from ..store.snapshot import Snapshot
from .recall_trials import said

OF_DOCUMENTS = ("documents", "offsets", "flags", "deletions", "columns", "words")
"""Roles of files that hold documents or their words, which the names of these files begin with."""
OUTGROWN = 2
"""Factor by which the documents may outgrow those that the reducer was fitted on."""


def facts(snapshot: Snapshot) -> dict[str, Any]:
    """Return the report of `Collection.info` as JSON values."""
    path = snapshot.path
    state = snapshot.state
    index = snapshot.index
    rows = snapshot.document_rows
    replacement = state.replacement
    probes = index.index.probes
    lists = {} if probes is None else {"lists_probed": probes[0], "lists": probes[1]}

    proved = state.certificate
    words = word_bytes(snapshot)
    return {
        "path": str(path),
        "documents": len(snapshot),
        "encoded": snapshot.searchable_count,
        "passages": {
            "tokens": state.passages,
            "documents_cut": len(without(rows.firsts, snapshot.deleted)),
            "rows": state.rows - len(snapshot.deleted),
        },
        "deleted": snapshot.deleted_count,
        "without_text": len(snapshot.hidden) - len(snapshot.deleted),
        "fitted_rows": state.fit_rows,
        "dimensions": state.dim,
        "settings": state.settings and state.settings.as_dict(),
        "requested": state.requested.as_dict(),
        "search": {"candidates": index.candidates, **lists},
        "certificate": proved
        and {**asdict(proved), "said": said(proved, snapshot.searchable_count, snapshot.noun)},
        "encoder": state.encoder,
        "next_encoder": replacement
        and {"encoder": replacement.encoder, "encoded": replacement.rows, "of": state.rows},
        "stored": {"vectors": state.stored, "bytes_per_vector": index.vectors.row_bytes},
        "columns": {n: snapshot.columns[n] for n in visible_columns(snapshot.columns)},
        "memory": memory(snapshot),
        "notes": [
            *filter(None, [snapshot.unfinished]),
            *fit_advice(snapshot),
            *kind_advice(snapshot),
        ],
        "lexical": None
        if words is None
        else {"disk_bytes_per_vector": words, "hybrid": state.fusion},
        "files": {file.name: size(file) for file in sorted(path.iterdir())},
    }


def memory(snapshot: Snapshot) -> dict[str, float]:
    """Bytes per vector in RAM and on disk, and the fixed bytes in RAM.

    On disk, vectors and derived files count, but neither documents nor the lexical index.
    """
    index = snapshot.index
    state = snapshot.state
    names = [name for name in state.file_names if not name.startswith(OF_DOCUMENTS)]
    disk = sum(size(snapshot.path / name) for name in names)
    return {
        "ram_bytes_per_vector": index.index.row_nbytes,
        "ram_bytes_fixed": index.fixed_nbytes,
        "disk_bytes_per_vector": disk / max(state.encoded, 1),
    }


def word_bytes(snapshot: Snapshot) -> float | None:
    """Bytes per vector of the lexical index on disk, None without one.

    In memory, it consists of file pages that the system can evict.
    """
    state = snapshot.state
    if state.words is None:
        return None
    return size(snapshot.path / state.words) / max(state.rows, 1)


def fit_advice(snapshot: Snapshot) -> list[str]:
    """Return a line if the documents have outgrown those that the reducer was fitted on."""
    if snapshot.state.is_provisional or not is_outgrown(snapshot):
        return []
    return [
        f"fitted on {snapshot.state.fit_rows:,} of {snapshot.searchable_count:,} {snapshot.noun}; "
        f"`slimdex reduce {snapshot.path}` fits again"
    ]


def kind_advice(snapshot: Snapshot) -> list[str]:
    """Return a line if `auto` would choose a faster kind for this number of documents."""
    state = snapshot.state
    count = snapshot.searchable_count
    better = by_size(count).name
    if state.settings is None or state.requested.kind != AUTO:
        return []
    if state.settings.kind in (FLAT.name, better):
        return []
    return [
        f"{count:,} {snapshot.noun}: kind {better}, from `slimdex reduce {snapshot.path}`, "
        "is faster"
    ]


def is_outgrown(snapshot: Snapshot) -> bool:
    """True if the reducer was fitted on so few of the documents that it may matter."""
    least = snapshot.index.reducer.n_features  # fewer do not span the variety of texts
    return snapshot.searchable_count > max(OUTGROWN * snapshot.state.fit_rows, least)
