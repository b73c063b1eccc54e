"""Sets of rows are what was found, however often and in whatever order they are asked for."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.indexes.arrays import Rows
from slimdex.retrieval.storage.row_sets import MOST, RowSets
from tests.chance import CHANCE

TOTAL = 21


@settings(max_examples=CHANCE.examples(30))
@given(
    sets=st.lists(st.sets(st.integers(0, TOTAL - 1)), min_size=12, max_size=12),
    asked=st.lists(st.integers(0, 11), max_size=60),
)
def test_the_last_ones_are_not_found_again(sets: list[set[int]], asked: list[int]) -> None:
    kept, found = RowSets(TOTAL), list[int]()
    for time, number in enumerate(asked):
        before = len(found)

        def find(number: int = number) -> Rows:
            found.append(number)
            return np.array(sorted(sets[number]), dtype=np.int64)

        rows = kept.rows(str(number), find)
        assert rows.tolist() == sorted(sets[number])
        assert rows.dtype == np.int64
        last = list(dict.fromkeys(reversed(asked[:time])))[:MOST]
        assert (len(found) > before) is (number not in last)
