"""Compacting: live rows are copied while others read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slimdex.errors import InUseError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest import compacting
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.store import index_files
from tests.encoders import WordEncoder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """60 documents, of which ten are deleted."""
    path = tmp_path / "x"
    with Collection.create(path, WordEncoder(), Settings(kind="sq8", k=4)) as collection:
        collection.add([Document(str(i), f"text {i} word{i % 7}") for i in range(60)])
        collection.delete([str(i) for i in range(10)])
    return path


def check(path: Path, ids: set[str]) -> None:
    """The index contains these documents and no deleted row, and each finds itself."""
    with Collection.open(path, WordEncoder()) as collection:
        assert {document.id for document in collection} == ids
        assert (len(collection), collection.index.state.rows) == (len(ids), len(ids))
        for document in collection:
            assert document.text is not None
            cosines = {hit.id: hit.similarity for hit in collection.search(document.text, 3)}
            np.testing.assert_allclose(cosines[document.id], 1, atol=1e-3)
    assert verify(path) == []
    assert not [*path.glob("work-*")]


def test_others_read_meanwhile_and_wait_to_write(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_moments = index_files.with_moments
    found = list[str]()

    def copied(*given: Any) -> Any:
        with Collection.open(path, WordEncoder(), wait=0) as other:
            found.append(other.search("text 20", 1)[0].id)
            with pytest.raises(InUseError):
                other.delete(["30"])
        return with_moments(*given)

    monkeypatch.setattr(compacting, "with_moments", copied)
    with Collection.open(path, WordEncoder()) as collection:
        assert collection.compact() == 10
        assert collection.compact() == 0
    assert found == ["20"]
    check(path, {str(i) for i in range(10, 60)})
