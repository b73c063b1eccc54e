"""Undo: the command that returns to what an index was before its last change."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..collection import Collection


@dataclass(frozen=True)
class Undo:
    """Undo the last change."""

    def run(self, collection: Collection) -> dict[str, Any]:
        """Return the numbers of restored, removed and left documents."""
        return asdict(collection.undo()) | {"documents": len(collection)}
