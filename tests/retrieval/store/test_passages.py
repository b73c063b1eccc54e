"""Which rows are of which document, against a plain list of every row's document."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

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
    assert rows.first_rows(np.array(expected, dtype=np.int64)).tolist() == chosen


COUNTS = st.lists(st.integers(1, 12), max_size=6)


def rows_from(first: int, counts: list[int]) -> DocumentRows:
    """Documents of so many rows each, from row `first` on."""
    firsts = [first + sum(counts[:i]) for i in range(len(counts))]
    several = [(row, count) for row, count in zip(firsts, counts, strict=True) if count > 1]
    table = np.array(several, dtype=np.int64).reshape(-1, 2)
    return DocumentRows(table[:, 0], table[:, 1])


@given(st.lists(COUNTS, max_size=5), COUNTS)
def test_commits_append_documents_and_never_change_those_of_others(
    commits: list[list[int]], other: list[int]
) -> None:
    """Also if a change failed that had appended to the same documents."""
    every = list[int]()
    states = [rows_from(0, [])]
    for counts in commits:
        states[-1].with_later(rows_from(sum(every), other))
        states.append(states[-1].with_later(rows_from(sum(every), counts)))
        every += counts
    done = 0
    for number, rows in enumerate(states):
        expected = rows_from(0, every[:done])
        assert rows.firsts.tolist() == expected.firsts.tolist()
        assert rows.counts.tolist() == expected.counts.tolist()
        done += len(commits[number]) if number < len(commits) else 0


def flags_of(counts: list[int]) -> NDArray[np.bool_]:
    """Whether each row continues the document of the row before."""
    return np.array([i > 0 for count in counts for i in range(count)], dtype=np.bool_)


@given(COUNTS, COUNTS)
def test_documents_of_flags(before: list[int], later: list[int]) -> None:
    for start, counts in ((0, before + later), (sum(before), later)):
        flags = flags_of(counts)
        expected = rows_from(start, counts)
        read = DocumentRows.of_flags(flags, start)
        assert read.firsts.tolist() == expected.firsts.tolist()
        assert read.counts.tolist() == expected.counts.tolist()
