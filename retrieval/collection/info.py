"""Facts: what an index holds, how it was made and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .collection import Collection
from .refit_advice import fit_advice


def facts(collection: Collection) -> dict[str, Any]:
    """Everything about an index that JSON can hold."""
    cost, state = memory(collection), collection.state
    return {
        "path": str(collection.path),
        "documents": len(collection),
        "deleted": len(collection.deleted),
        "without_text": len(collection.hidden) - len(collection.deleted),
        "cut": _cut(collection),
        "fitted_documents": state.fitted,
        "dimensions": state.dim,
        "settings": state.settings and state.settings.as_dict(),
        "requested": state.requested.as_dict(),
        "encoder": state.encoder,
        "columns": collection.store.columns,
        "memory": cost,
        "notes": fit_advice(
            collection.path,
            state.fitted,
            state.rows - len(collection.hidden),
            collection.index,
        ),
        "files": {path.name: path.stat().st_size for path in sorted(collection.path.iterdir())},
    }


def _cut(collection: Collection) -> dict[str, float]:
    """How many documents are longer than what is read of a text, and the share of them that is.

    "complete" is false where some were encoded by a slimdex that did not count.
    """
    count, share = collection.store.count_cut()
    complete = collection.state.measured
    return {"documents": count, "share_read": round(share, 4), "complete": complete}


def memory(collection: Collection) -> dict[str, float]:
    """Bytes a vector in RAM and on disk, and the fixed cost in RAM, from the structures.

    On disk are the vectors and what is derived from them; the documents are not counted.
    """
    index, rows = collection.index, max(collection.state.rows, 1)
    names = collection.state.file_names
    disk = sum(_size(collection.path / name) for name in names)
    return {
        "ram_bytes_per_vector": index.index.row_nbytes,
        "ram_bytes_fixed": index.fixed_nbytes,
        "disk_bytes_per_vector": disk / rows,
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # another thread's change has just removed it
        return 0
