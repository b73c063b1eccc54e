"""Documents by row: appended, read at random, and never wrong without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slimdex.indexes.errors import CorruptError
from slimdex.indexes.vectors.vector_file import BLOCK_BYTES
from slimdex.retrieval.catalog.passages_table import Cut
from slimdex.retrieval.catalog.state import Lines
from slimdex.retrieval.documents import Document, Part
from slimdex.retrieval.passages import Passage
from slimdex.retrieval.storage.document_file import ENTRY, DocumentFile, cut_text
from slimdex.retrieval.storage.document_lines import UnwritableError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.tuples(TEXTS, TEXTS, TEXTS, st.integers() | st.none() | TEXTS)
COLUMNS = {"n": "BIGINT"}


def empty(folder: Path) -> DocumentFile:
    return DocumentFile(folder, Lines("documents-000001.jsonl", "offsets-000001.bin"), 0)


def values(count: int, first: int = 0) -> list[tuple[Any, ...]]:
    return [(f"id{i}", "", f"text {i} " * (i % 5), i) for i in range(first, first + count)]


def as_documents(written: list[tuple[Any, ...]]) -> dict[int, Document]:
    return {
        row: Document(id, text, title, {"n": n}) for row, (id, title, text, n) in enumerate(written)
    }


@given(st.lists(st.lists(VALUES, max_size=5), max_size=5), st.data())
def test_documents_are_read_as_appended(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[tuple[Any, ...]]],
    data: st.DataObject,
) -> None:
    file, written = empty(tmp_path_factory.mktemp("file")), list[tuple[Any, ...]]()
    for part in parts:
        before = file.open()
        file = before.append(part, COLUMNS)
        assert before.documents(range(before.rows), COLUMNS) == as_documents(written)
        written += part
        assert file.rows == len(written)
    expected = as_documents(written)
    rows = data.draw(
        st.lists(st.sampled_from(sorted(expected)), unique=True) if expected else st.just([])
    )
    assert file.documents(rows, COLUMNS) == {row: expected[row] for row in rows}
    assert [*file.documents(rows, COLUMNS)] == rows


def test_all_rows_of_a_document_have_its_line(tmp_path: Path) -> None:
    parts = (Part(0, ("A",)), Part(3, ("A", "B"), 2, "b"))
    cut = Cut([Passage(0, 3), Passage(4, 7), Passage(8, 9)], parts)
    written = [("a", "", "x"), ("b", "t", cut_text("one two 3", cut)), ("c", "", "y")]
    file = empty(tmp_path).append(written, {})
    assert file.rows == 5
    actual = file.documents(range(5), {})
    assert [actual[row].id for row in range(5)] == ["a", "b", "b", "b", "c"]
    assert actual[2].text == "one two 3"
    assert actual[2].parts == parts
    assert actual[2].passages == ((0, 3), (4, 7), (8, 9))
    whole = cut_text("x", Cut([Passage(0, 1)], parts))
    longer = file.append([("d", "", whole)], {})
    assert longer.rows == 6
    assert longer.documents([5], {})[5].passages == ((0, 1),)


def test_lines_older_than_a_column_have_no_value(tmp_path: Path) -> None:
    file = empty(tmp_path).append([("a", "", "x")], {}).append([("b", "", "y", 3)], COLUMNS)
    actual = file.documents([0, 1], COLUMNS | {"more": "DATE"})
    assert [d.metadata for d in actual.values()] == [
        {"n": None, "more": None},
        {"n": 3, "more": None},
    ]


def test_leftovers_of_an_interrupted_append_are_overwritten(tmp_path: Path) -> None:
    file = empty(tmp_path).append(values(20), COLUMNS)
    with pytest.raises(UnwritableError):
        file.append([*values(5, 20), ("id", "", "text", object())], COLUMNS)
    for part in file.parts:
        with part.path.open("ab") as opened:
            opened.write(b"junk" * 100)
    assert DocumentFile(tmp_path, file.lines, 20).documents(range(20), COLUMNS) == as_documents(
        values(20)
    )
    longer = file.append(values(10, 20), COLUMNS)
    assert longer.documents(range(30), COLUMNS) == as_documents(values(30))
    assert [part.path.stat().st_size for part in longer.parts] == [
        longer.lines.bytes,
        30 * ENTRY.size,
    ]


def test_an_open_file_outlives_its_names(tmp_path: Path) -> None:
    file = empty(tmp_path).append(values(20), COLUMNS).open()
    for part in file.parts:
        part.path.unlink()
    assert file.documents([3, 17], COLUMNS)[17].id == "id17"


@pytest.mark.parametrize("which", [0, 1])
def test_cut_and_missing_files_are_reported(tmp_path: Path, which: int) -> None:
    file = empty(tmp_path).append(values(20), COLUMNS)
    path = file.parts[which].path
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    expected = (
        rf"{path.name}: {len(whole) - 1} bytes, expected {len(whole)}; `slimdex repair .*` re"
    )
    with pytest.raises(CorruptError, match=expected):
        DocumentFile(tmp_path, file.lines, 20)
    with pytest.raises(CorruptError, match=expected):
        file.open()
    path.unlink()
    with pytest.raises(CorruptError, match=f"{path.name}: 0 bytes"):
        DocumentFile(tmp_path, file.lines, 20)


@pytest.mark.parametrize("which", [0, 1])
def test_every_flipped_byte_is_detected(tmp_path: Path, which: int) -> None:
    """By who reads its row: of the lines as of where they are."""
    file = empty(tmp_path).append(values(20), COLUMNS)
    path = file.parts[which].path
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        damaged = DocumentFile(tmp_path, file.lines, 20)
        with pytest.raises(CorruptError, match=r"damaged.*`slimdex repair .*` rebuilds it"):
            damaged.documents(range(20), COLUMNS)
    path.write_bytes(whole)
    assert file.documents(range(20), COLUMNS) == as_documents(values(20))


@pytest.mark.parametrize(
    "line",
    [
        ("a",),
        ("a", "", 5),
        (None, "", "x"),
        ("a", "", "x", 1, 2),
        ("a", "", "x", "{"),
        ("a", "", "x", 5),
        ("a", "", ["x", []], None),
        ("a", "", [5, [], []], None),
        ("a", "", ["x", [[0]], []], None),
        ("a", "", ["x", [[0, "1"]], []], None),
        ("a", "", ["x", [[-1, 1]], []], None),
        ("a", "", ["x", [[0, 1]], [[0, "headings", None]]], None),
        ("a", "", ["x", [[0, 1]], [[0, [5], None, ""]]], None),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, line: tuple[Any, ...]) -> None:
    """A stranger's checksums can be right."""
    file = empty(tmp_path).append([line], {"n": "JSON"})
    with pytest.raises(CorruptError, match=r"documents-000001\.jsonl: row 0 is damaged, at byte 0"):
        file.documents([0], {"n": "JSON"})


def test_blocks_cover_the_committed_bytes(tmp_path: Path) -> None:
    file = empty(tmp_path).append([("a", "", "x" * BLOCK_BYTES)], {})
    longer = file.append([("b", "", "y")], {})
    first, second = longer.parts[0].blocks()
    assert [block for block, _ in (first, second)] == [0, 1]
    whole, short = file.parts[0].blocks()
    assert whole == first
    assert short[0] == 1
    assert short != second
