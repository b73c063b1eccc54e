"""Short documents that differ, and an index of forty of them; and an encoding that stops."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import encode
from tests.encoders import WordEncoder


def documents(start: int, stop: int) -> list[Document]:
    return [Document(str(i), f"word{i} cat dog {i * 7 % 13}") for i in range(start, stop)]


def forty(path: Path) -> Path:
    """An index of the first forty documents."""
    with Collection.create(path, WordEncoder()) as collection:
        collection.add(documents(0, 40))
    return path


def stop_after_first_vectors(patch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Raise an error once the first vectors of an addition are committed."""
    begun, counting = count(), encode.counting

    def encoding(*given: Any) -> Any:
        if next(begun):
            raise error
        return counting(*given)

    patch.setattr(encode, "counting", encoding)
