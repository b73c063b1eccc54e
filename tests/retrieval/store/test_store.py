from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.errors import CorruptError, InputError, UnreadableError
from slimdex.retrieval.documents import Document
from slimdex.retrieval.index import Index
from slimdex.retrieval.server import column_facts as column_facts_module
from slimdex.retrieval.server.column_facts import column_facts, folder_counts
from slimdex.retrieval.store.columns import to_merge
from slimdex.retrieval.store.state import FORMAT, MOST_TRAILING, ColumnFile

from ..forging import forge, rewrite
from .stores import add, created


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
    assert index.store.rows_where("\"odd name\" = 'x' OR f < 1").tolist() == [0, 1]


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
def test_listed_folders_have_the_most_documents(documents: dict[str, int], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_facts_module, "LISTED_FOLDERS", most)
        listed = folder_counts(documents)
    for folder, count in listed:
        below = [n for own, n in documents.items() if f"{own}/".startswith(f"{folder}/")]
        assert count == (sum(below) if folder else documents[""])
    assert len(listed) <= most
    parents = {
        own[:i] for own in documents for i in range(len(own) + 1) if own[i : i + 1] in ("", "/")
    }
    names = {own for own, _ in listed}
    assert names == parents or len(names) == most
    assert all(name.rpartition("/")[0] in names for name in names if "/" in name[1:])


def test_conditions_see_all_documents_and_ids_live_ones(index: Index) -> None:
    add(index, *(Document(str(i), "t", metadata={"n": i}) for i in range(6)))
    with index.change() as change:
        change.commit(delete=np.array([1]))
    assert index.store.rows_where("n < 3").tolist() == [0, 1, 2]
    assert index.store.rows_of(["3", "0"]).tolist() == [3, 0]
    for gone in ("1", "nope"):
        with pytest.raises(InputError, match=f"unknown id '{gone}'"):
            index.store.rows_of(["0", gone])


def test_a_transaction_is_all_or_nothing(index: Index) -> None:
    def fail() -> None:
        with index.change() as change:
            change.columns = {"n": "BIGINT"}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert index.snapshot.manifest.columns == {}
    assert [*index.store.records()] == []


def _merged(sizes: Sequence[int]) -> list[int]:
    """Sizes of files that are left of these."""
    stops = np.cumsum(sizes).tolist()
    parts = [ColumnFile("c", 1, "", stop - n, stop) for n, stop in zip(sizes, stops, strict=True)]
    first = to_merge(parts)
    return [*sizes[:first], sum(sizes[first:])] if first < len(sizes) else [*sizes]


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=300))
def test_at_most_seven_files_are_left_of_each_size(sizes: list[int]) -> None:
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


def test_foreign_files_of_columns_are_refused(index: Index) -> None:
    """Also if their checksums are right."""
    add(index, *(Document(str(i), "one") for i in range(MOST_TRAILING + 1)))
    (file,) = index.state.column_files
    (index.path / file.name).write_bytes(b"PAR1" * 5000)
    forge(index.path)
    with closing(Index.open(index.path)) as other, pytest.raises(CorruptError):
        other.store.rows_where("id = 'a'")


UNCLOSED = """
import sys
from pathlib import Path
from slimdex.retrieval.index import Index

assert Index.open(Path(sys.argv[1])).store.documents([0])[0].id == "a"
"""


def test_a_process_that_closes_nothing_exits_normally(index: Index) -> None:
    add(index, Document("a", "text"))
    command = [sys.executable, "-c", UNCLOSED, str(index.path)]
    assert subprocess.run(command, check=False).returncode == 0


def test_queries_go_on_after_a_fatal_error(index: Index) -> None:
    """After which DuckDB refuses all statements, so it starts again."""
    add(index, Document("a", "x"))
    with index.store.reading():  # another connection, which waits for its next query meanwhile
        assert index.store.rows_where("true").tolist() == [0]
    with pytest.raises(UnreadableError, match="out of order"), index.store.reading() as failed:
        raise duckdb.FatalException("out of order")
    with index.store.reading() as another:
        assert another is not failed
    assert index.store.rows_where("true").tolist() == [0]
