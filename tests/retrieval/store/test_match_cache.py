"""Matches of conditions, kept over commits, against conditions that are evaluated for all rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.indexes.arrays import Rows
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.store.document_store import DocumentStore
from slimdex.retrieval.store.where.match_cache import Matches
from tests.encoders import WordEncoder


@given(
    st.sets(st.integers(0, 60)),
    st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(0, 60)), max_size=20),
)
def test_rows_of_any_states_in_any_order(
    matching: set[int], searches: list[tuple[str, int]]
) -> None:
    """More conditions than are kept; a search may be in an older state than the one before."""
    matches = Matches()

    def find(start: int, stop: int) -> Rows:
        return np.array([row for row in range(start, stop) if row in matching], dtype=np.int64)

    for where, stop in searches:
        expected = [row for row in range(stop) if row in matching]
        known = matches.of(where)
        if known.stop < stop:
            known = known.extend(find(known.stop, stop), stop)
        matches.keep(where, known)
        assert known.rows(stop).tolist() == expected


def test_a_repeated_condition_is_evaluated_for_new_rows_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, filtered, ranges = tmp_path / "x", DocumentStore.rows_where, list[tuple[int, int]]()

    def rows_where(store: DocumentStore, where: str, stop: int, start: int = 0) -> Rows:
        ranges.append((start, stop))
        return filtered(store, where, stop, start)

    monkeypatch.setattr(DocumentStore, "rows_where", rows_where)

    def ids(collection: Collection) -> set[str]:
        return {hit.id for hit in collection.search("tea", limit=50, where="n < 5 OR n >= 20")}

    with (
        Collection.create(path, WordEncoder()) as one,
        Collection.open(path, WordEncoder()) as other,
    ):
        one.add([Document(str(n), f"tea {n}", metadata={"n": n}) for n in range(9)])
        assert ids(one) == ids(other) == {"0", "1", "2", "3", "4"}
        one.add([Document(str(n), f"tea {n}", metadata={"n": n}) for n in range(18, 22)])
        one.delete("1")
        assert ids(one) == ids(other) == {"0", "2", "3", "4", "20", "21"}
        assert ranges == [(0, 9), (0, 9), (9, 13), (9, 13)]
        one.undo()  # which renumbers nothing, but documents come back
        assert ids(one) == ids(other) == {"0", "1", "2", "3", "4", "20", "21"}
        one.compact()
        one.add([Document("a", "tea", metadata={"n": 20.5})])  # the column's type changes
        assert ids(one) == ids(other) == {"0", "1", "2", "3", "4", "20", "21", "a"}
        ranges.clear()
        for _ in range(2):
            assert one.count("n < 5 AND now() > DATE '2020-01-01'") == 5
        assert len(ranges) == 2
