"""Which rows are of which document, against a plain list of every row's document."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slimdex.retrieval.store.passages import DocumentRows


@given(st.lists(st.integers(1, 4), max_size=12), st.data())
def test_rows_and_documents(counts: list[int], data: st.DataObject) -> None:
    firsts = [sum(counts[:i]) for i in range(len(counts))]
    owner = [first for first, count in zip(firsts, counts, strict=True) for _ in range(count)]
    several = [(first, count) for first, count in zip(firsts, counts, strict=True) if count > 1]
    table = np.array(several, dtype=np.int64).reshape(-1, 2)
    rows = DocumentRows(table[:, 0], table[:, 1])
    assert rows.is_one_each == (not several)
    numbers = np.array([[*range(len(owner)), -1]], dtype=np.int64)
    assert rows.documents(numbers).tolist() == [[*owner, -1]]
    chosen = sorted(data.draw(st.sets(st.sampled_from(firsts)))) if firsts else []
    documents = np.array(chosen, dtype=np.int64)
    expected = [row for row, own in enumerate(owner) if own in chosen]
    assert rows.all_rows(documents).tolist() == expected
    assert rows.counts_of(documents).tolist() == [owner.count(first) for first in chosen]
    assert rows.number(np.array(expected, dtype=np.int64)) == len(chosen)
    for i, first in enumerate([*firsts, len(owner)]):
        assert rows.number_before(first) == i
