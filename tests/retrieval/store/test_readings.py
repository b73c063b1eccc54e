"""Readings: how much of each text was read, over many commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.retrieval.store.readings import ReadingFile, Readings
from tests.chance import CHANCE

ROWS = st.integers(0, 40)
STEPS = st.one_of(
    st.dictionaries(ROWS, st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=5),
    st.tuples(ROWS, ROWS),
)


def committed(change: Readings, path: Path) -> ReadingFile | None:
    if not change.added:
        return change.file
    return (change.file or ReadingFile(path)).with_entries(np.concatenate(change.added))


@settings(max_examples=CHANCE.examples(100))
@given(st.lists(st.tuples(st.lists(STEPS, max_size=4), st.booleans()), max_size=6))
def test_readings_against_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, commits: list[tuple[list[Any], bool]]
) -> None:
    path = tmp_path_factory.mktemp("readings") / "readings.bin"
    now, expected = Readings(), dict[int, tuple[int, int]]()
    for steps, is_read in commits:
        change = now.for_change()
        for step in steps:
            if isinstance(step, dict):
                change.add(step)
                expected = {**expected, **step}
            else:
                start, stop = step
                change.forget(start, stop)
                gone = [row for row in expected if start <= row < stop and expected[row][0]]
                expected = {row: it for row, it in expected.items() if row not in gone}
            assert change.of(np.arange(50)) == expected
        now = now.at_commit(committed(change, path))
        for readings in (now, Readings(now.file)) if is_read else ():
            assert readings.of(np.arange(50)) == expected
            blank = [row for row in sorted(expected) if expected[row][0] == 0]
            assert readings.textless().tolist() == blank
            assert readings.textless(20).tolist() == [row for row in blank if row >= 20]
