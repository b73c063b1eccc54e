from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.errors import CorruptError, InputError
from slimdex.retrieval.documents import Document
from slimdex.retrieval.index import Index
from slimdex.retrieval.store.columns import column_facts, folder_counts
from slimdex.retrieval.store.merging import to_merge
from slimdex.retrieval.store.state import FORMAT, Segment
from tests.chance import CHANCE

from ..forging import forge, rewrite
from .stores import add, created, insert


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with created(tmp_path / "x.index") as index:
        yield index


def test_metadata_becomes_typed_columns(index: Index) -> None:
    add(
        index,
        Document("a", "one", metadata={"n": 1, "f": 1, "d": date(2020, 1, 1), "odd name": "x"}),
        Document("b", "two", metadata={"n": None, "f": 0.5, "l": {"k": [1]}}),
        Document("c", "three", metadata={"mixed": 1}),
        Document("d", "four", metadata={"mixed": "s"}),
    )
    assert index.snapshot.manifest.columns == {
        "n": "BIGINT",
        "f": "DOUBLE",
        "d": "DATE",
        "odd name": "VARCHAR",
        "l": "JSON",
        "mixed": "VARCHAR",
    }
    documents = index.store.read([1, 0])
    assert documents[0].metadata["d"] == date(2020, 1, 1)
    assert documents[1].metadata["l"] == {"k": [1]}
    assert index.store.rows_where("\"odd name\" = 'x' OR f < 1", 9).tolist() == [0, 1]


def test_folders_are_counted_with_those_below(index: Index) -> None:
    folders = ["", "a", "a/b", "a/b", "a/b c", "a0", "é/x/y"]
    add(index, *(Document(str(i), "x", metadata={"folder": own}) for i, own in enumerate(folders)))
    (facts,) = column_facts(index.store)
    counts = {"": 1, "a": 4, "a/b": 2, "a/b c": 1, "a0": 1, "é": 1, "é/x": 1, "é/x/y": 1}
    assert facts["folders"] == [{"value": own, "documents": n} for own, n in counts.items()]


def test_items_of_lists_are_counted_by_documents(index: Index) -> None:
    rows: list[dict[str, Any]] = [
        {"tags": ["b", "a", "b"], "sizes": [2], "deep": [[1]]},
        {"tags": ["b", None], "sizes": []},
        {"tags": None},
    ]
    add(index, *(Document(str(i), "x", metadata=own) for i, own in enumerate(rows)))
    facts = {each["name"]: each.get("items") for each in column_facts(index.store)}
    assert facts["tags"] == [{"value": "b", "documents": 2}, {"value": "a", "documents": 1}]
    assert facts["sizes"] == [{"value": 2, "documents": 1}]
    assert facts["deep"] is None


PATHS = st.lists(st.sampled_from(["a", "b", "a b", "é"]), max_size=4).map("/".join)


@given(st.dictionaries(PATHS, st.integers(1, 9)), st.integers(1, 20))
def test_listed_folders_are_whole_levels(documents: dict[str, int], most: int) -> None:
    listed = folder_counts(documents, most)
    for folder, count in listed:
        below = [n for own, n in documents.items() if f"{own}/".startswith(f"{folder}/")]
        assert count == (sum(below) if folder else documents[""])
    assert len(listed) <= most
    levels = {folder.count("/") for folder, _ in listed}
    assert levels == set(range(len(levels)))
    parents = {
        own[:i] for own in documents for i in range(len(own) + 1) if own[i : i + 1] in ("", "/")
    }
    for level in levels - {0}:
        assert {own for own in parents if own.count("/") == level} <= {own for own, _ in listed}


def test_a_value_that_does_not_fit_its_column(index: Index) -> None:
    add(index, Document("a", "one", metadata={"n": 4, "base64": b"4"}))
    for column, type_ in (("n", "BIGINT"), ("base64", "BLOB")):
        with pytest.raises(InputError, match=f"'b': 'few' in column '{column}'; expected {type_}"):
            add(index, Document("b", "two", metadata={column: "few"}))
    for name in ("Text", "", 5):
        with pytest.raises(InputError, match=f"metadata {name!r}; expected a name other than row"):
            add(index, Document("b", "two", metadata={name: "many"}))  # type: ignore[dict-item]
    assert index.store.ids_by_row(9) == ["a"]


@pytest.mark.parametrize(
    ("old", "new", "type_", "found"),
    [
        (2, 1.5, "DOUBLE", [2.0, 1.5]),
        (True, 7, "BIGINT", [1, 7]),
        (date(2020, 1, 2), datetime(2020, 1, 2, 3), "TIMESTAMP", None),
        ("text", 5, "VARCHAR", ["text", "5"]),
        ({"a": 1}, [2], "JSON", [{"a": 1}, [2]]),
        ({"a": 1}, "5", "JSON", [{"a": 1}, "5"]),
        ({"a": 1}, '{"a": 1}', "JSON", [{"a": 1}, '{"a": 1}']),
        (1, np.float32(0.5), "DOUBLE", [1.0, 0.5]),
        (2**62, 2**40, "BIGINT", [2**62, 2**40]),
    ],
)
@pytest.mark.parametrize("commits", [1, 2])
def test_a_column_widens_and_loses_nothing(
    index: Index,
    old: object,
    new: object,
    type_: str,
    found: list[object] | None,
    commits: int,
) -> None:
    """Also if the older value is in a segment, which keeps its type."""
    first = Document("a", "one", metadata={"n": old})
    second = Document("b", "two", metadata={"N": new})
    if commits == 1:
        with index.change() as change:
            insert(change, first, second)
            change.commit()
    else:
        add(index, first)
        add(index, second)
    assert index.snapshot.manifest.columns == {"n": type_}
    assert len(index.state.segments) == commits
    documents = index.store.read([0, 1])
    values = [documents[row].metadata["n"] for row in (0, 1)]
    assert values == (found or [datetime(2020, 1, 2), datetime(2020, 1, 2, 3)])


@pytest.mark.parametrize(
    ("first", "second"),
    [(2**53 + 1, 0.5), (0.5, 2**53 + 1), (0.5, 10**5000)],
    ids=["fraction", "whole", "endless"],
)
def test_no_number_loses_digits(index: Index, first: float, second: float) -> None:
    """Whole numbers that DOUBLE can't hold are not mixed with fractions."""
    add(index, Document("a", "x", metadata={"n": first}))
    with pytest.raises(InputError, match="would lose digits"):
        add(index, Document("b", "y", metadata={"n": second}))
    add(index, Document("b", "y", metadata={"n": 2}))
    assert index.store.read([0])[0].metadata["n"] == first


def test_conditions_see_rows_before_an_end_and_ids_live_documents_only(index: Index) -> None:
    add(index, *(Document(str(i), "t", metadata={"n": i}) for i in range(6)))
    with index.change() as change:
        change.commit(delete=np.array([1]))
    assert index.store.rows_where("n >= 0", 4).tolist() == [0, 1, 2, 3]
    assert index.store.live_rows(["3", "0"]).tolist() == [0, 3]
    for gone in ("1", "nope"):
        with pytest.raises(InputError, match=f"unknown id '{gone}'"):
            index.store.live_rows(["0", gone])


def test_a_transaction_is_all_or_nothing(index: Index) -> None:
    def fail() -> None:
        with index.change() as change:
            insert(change, Document("a", "one", metadata={"n": 4}))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert index.snapshot.manifest.columns == {}
    assert index.store.contents(0, 9) == []


@settings(max_examples=CHANCE.examples(5))
@given(st.lists(st.integers(0, 40), min_size=10, max_size=12))
def test_segments_are_merged_so_that_few_are_left(tmp_path_factory, sizes: list[int]) -> None:  # type: ignore[no-untyped-def]
    """Small additions in any order: every document stays, once, in its row."""
    with created(tmp_path_factory.mktemp("merged") / "x.index") as index:
        ids = list[str]()
        for size in filter(None, sizes):
            add(index, *(Document(str(len(ids) + i), "t") for i in range(size)))
            ids += [str(len(ids) + i) for i in range(size)]
        assert index.store.ids_by_row(len(ids)) == ids
        assert len(index.state.segments) <= 14


def _merged(sizes: Sequence[int]) -> list[int]:
    """Sizes of segments that are left of these."""
    stops = np.cumsum(sizes).tolist()
    parts = [Segment("s", 1, "", stop - n, stop) for n, stop in zip(sizes, stops, strict=True)]
    first = to_merge(parts)
    return [*sizes[:first], sum(sizes[first:])] if first < len(sizes) else [*sizes]


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=300))
def test_at_most_seven_segments_are_left_of_each_size(sizes: list[int]) -> None:
    """Sizes from a power of eight to before the next one count as the same."""
    left = list[int]()
    for size in sizes:
        left = _merged([*left, size])
        assert max(Counter((each.bit_length() - 1) // 3 for each in left).values()) <= 7


def test_a_million_rows_added_by_thousands_are_copied_three_times_each() -> None:
    left, copied, most = list[int](), 0, 0
    for _ in range(1184):
        before = [*left, 1000]
        left = _merged(before)
        copied += left[-1] if len(left) < len(before) else 0
        most = max(most, len(left))
    assert copied < 3 * 1_184_000
    assert most == 22


@pytest.mark.parametrize(
    ("format_", "error"), [(FORMAT + 1, InputError), (0, CorruptError), (None, CorruptError)]
)
def test_another_format_is_refused(
    index: Index, format_: int | None, error: type[Exception]
) -> None:
    rewrite(index.path, lambda header: header | {"format": format_})
    with pytest.raises(error):
        Index.open(index.path)


def test_foreign_files_are_refused(index: Index) -> None:
    add(index, Document("a", "one"))
    segment = index.path / index.state.segments[0].name
    for content in (b"junk" * 5000, None):
        segment.unlink()
        if content is None:
            duckdb.connect(str(segment)).close()
        else:
            segment.write_bytes(content)
        forge(index.path)
        other = Index.open(index.path)
        with pytest.raises(CorruptError, match=r"not a segment|damaged"):
            other.store.read([0])
        other.close()


UNCLOSED = """
import sys
from pathlib import Path
from slimdex.retrieval.index import Index

assert Index.open(Path(sys.argv[1])).store.read([0])[0].id == "a"
"""


def test_a_process_that_closes_nothing_exits_normally(index: Index) -> None:
    add(index, Document("a", "text"))
    command = [sys.executable, "-c", UNCLOSED, str(index.path)]
    assert subprocess.run(command, check=False).returncode == 0
