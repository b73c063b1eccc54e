"""Matches of conditions, kept until the next commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.indexes.arrays import Rows
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.store.document_store import DocumentStore
from slimdex.retrieval.store.snapshot import MOST_CONDITIONS
from tests.encoders import WordEncoder


def test_a_repeated_condition_is_evaluated_once_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, filtered, evaluated = tmp_path / "x", DocumentStore.rows_where, list[int]()

    def rows_where(store: DocumentStore, where: str) -> Rows:
        evaluated.append(store.rows)
        return filtered(store, where)

    monkeypatch.setattr(DocumentStore, "rows_where", rows_where)

    def ids(collection: Collection) -> set[str]:
        return {hit.id for hit in collection.search("tea", limit=50, where="n < 5 OR n >= 20")}

    with (
        Collection.create(path, WordEncoder()) as one,
        Collection.open(path, WordEncoder()) as other,
    ):
        one.add([Document(str(n), f"tea {n}", metadata={"n": n}) for n in range(9)])
        for _ in range(3):
            assert ids(one) == ids(other) == {"0", "1", "2", "3", "4"}
        one.add([Document(str(n), f"tea {n}", metadata={"n": n}) for n in range(18, 22)])
        one.delete("1")
        assert ids(one) == ids(other) == {"0", "2", "3", "4", "20", "21"}
        assert evaluated == [9, 9, 13, 13]
        one.undo()  # which renumbers nothing, but documents come back
        assert ids(one) == ids(other) == {"0", "1", "2", "3", "4", "20", "21"}
        one.compact()
        one.add([Document("a", "tea", metadata={"n": 20.5})])  # the column's type changes
        assert ids(one) == ids(other) == {"0", "1", "2", "3", "4", "20", "21", "a"}
        evaluated.clear()
        for _ in range(2):
            assert one.count("n < 5 AND now() > DATE '2020-01-01'") == 5
        assert len(evaluated) == 2

        # Any number of conditions, of which few are kept.
        for _ in range(2):
            for n in range(3 * MOST_CONDITIONS):
                assert one.count(f"n = {n}") == (n < 9 or 18 <= n < 22)
