"""Documents as lines of a file: they come back as they were, and say what the catalog says."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slimdex.errors import CorruptError, InputError
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Hit, Part
from slimdex.retrieval.ingest import writer
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.passages import Passage
from slimdex.retrieval.store import lines
from slimdex.retrieval.store.lines import (
    ENTRY,
    NONE_COMPRESSED,
    CompressedLines,
    DocumentFile,
    UnwritableError,
    line_and_rows,
    line_of,
    text_value,
    values_of,
)
from slimdex.retrieval.store.passages import DocumentPassages
from slimdex.retrieval.store.state import Lines
from tests.chance import CHANCE
from tests.conftest import Copies
from tests.encoders import WordEncoder

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
MOMENTS = st.dates() | st.datetimes() | st.times() | st.timedeltas()
PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary()
    | st.decimals() | st.uuids() | MOMENTS.filter(lambda moment: not getattr(moment, "fold", 0))
)  # fmt: skip
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(TEXTS | st.sampled_from(["date", "struct"]), inner)
    ),
    max_leaves=8,
)


BOUNDS = [
    *(date.min, date.max, datetime.max, time.max, timedelta.min, timedelta.max),
    *(Decimal("-0"), Decimal("1E+5"), UUID(int=0), 2**127 - 1, -0.0, 5e-324),
]


@settings(max_examples=CHANCE.examples(40))
@given(st.lists(VALUES))
@example(BOUNDS)
def test_values_are_restored_exactly(values: list[Any]) -> None:
    line = line_of(values)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert repr(values_of(line)) == repr(values)  # which tells 1 from 1.0 and from True, and NaN


class Number(int):
    """A number of a library that makes its own."""


@pytest.mark.parametrize(
    "value",
    [
        Number(3),
        {1},
        object(),
    ],
)
def test_values_that_cannot_be_restored_are_refused(value: Any) -> None:
    with pytest.raises(UnwritableError):
        line_of(["7", value])


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(2024, 1, 2, fold=1), datetime(2024, 1, 2)),
        (
            datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
            datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
        ),
    ],
)
def test_moments_in_zones_are_written_by_their_offset(moment: Any, expected: Any) -> None:
    (actual,) = values_of(line_of([moment]))
    assert repr(actual).replace("datetime.timezone.utc", "UTC") == repr(expected).replace(
        "datetime.timezone.utc", "UTC"
    )


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff",
        b"3",
        b'[{"date":"soon"}]',
        b'[{"timedelta":[1000000000000,0,0]}]',
        b'[{"struct":[[[],1]]}]',
        b'[{"other":1}]',
        b"[" * 100_000,
    ],
)
def test_invalid_lines_are_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="no line of a document"):
        values_of(line)


ROWS = st.tuples(TEXTS, TEXTS, TEXTS, st.integers() | st.none() | TEXTS)
COLUMNS = {"n": "BIGINT"}


def empty(folder: Path) -> DocumentFile:
    return DocumentFile(folder, Lines("documents-000001.jsonl", "offsets-000001.bin"), 0)


def appended(
    file: DocumentFile,
    documents: Sequence[Sequence[Any]],
    columns: dict[str, str],
    known: CompressedLines = NONE_COMPRESSED,
) -> DocumentFile:
    return file.append(map(line_and_rows, documents), columns, known)


def values(count: int, first: int = 0) -> list[tuple[Any, ...]]:
    return [(f"id{i}", "", f"text {i} " * (i % 5), i) for i in range(first, first + count)]


def as_documents(written: list[tuple[Any, ...]]) -> dict[int, Document]:
    return {
        row: Document(id, text, title, {"n": n}) for row, (id, title, text, n) in enumerate(written)
    }


@settings(max_examples=CHANCE.examples(40))
@given(st.lists(st.lists(ROWS, max_size=5), max_size=5), st.data())
def test_documents_are_read_as_appended(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[tuple[Any, ...]]],
    data: st.DataObject,
) -> None:
    file, written = empty(tmp_path_factory.mktemp("file")), list[tuple[Any, ...]]()
    for part in parts:
        before = file.open()
        file = appended(before, part, COLUMNS)
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
    lines = ((3, 7), (4, 7), (6, 1_000_000))
    parts = (Part(0, ("A",)), Part(3, ("A", "B"), 2, "b", lines), Part(8, lines=((9, 10**12),)))
    cut = DocumentPassages([Passage(0, 3), Passage(4, 7), Passage(8, 9)], parts)
    written = [("a", "", "x"), ("b", "t", text_value("one two 3", cut, None)), ("c", "", "y")]
    file = appended(empty(tmp_path), written, {})
    assert file.rows == 5
    actual = file.documents(range(5), {})
    assert [actual[row].id for row in range(5)] == ["a", "b", "b", "b", "c"]
    assert actual[2].text == "one two 3"
    assert actual[2].parts == parts
    assert actual[2].passages == ((0, 3), (4, 7), (8, 9))
    whole = text_value("x", DocumentPassages([Passage(0, 1)], parts), None)
    longer = appended(file, [("d", "", whole)], {})
    assert longer.rows == 6
    assert longer.documents([5], {})[5].passages == ((0, 1),)


def test_leftovers_of_an_interrupted_append_are_overwritten(tmp_path: Path) -> None:
    file = appended(empty(tmp_path), values(20), COLUMNS)
    with pytest.raises(UnwritableError):
        appended(file, [*values(5, 20), ("id", "", "text", object())], COLUMNS)
    for part in file.files:
        with part.path.open("ab") as opened:
            opened.write(b"junk" * 100)
    assert DocumentFile(tmp_path, file.lines, 20).documents(range(20), COLUMNS) == as_documents(
        values(20)
    )
    longer = appended(file, values(10, 20), COLUMNS)
    assert longer.documents(range(30), COLUMNS) == as_documents(values(30))
    assert [part.path.stat().st_size for part in longer.files] == [
        longer.lines.bytes,
        30 * ENTRY.size,
    ]


@pytest.mark.parametrize("which", [0, 1])
def test_cut_and_missing_files_are_reported(tmp_path: Path, which: int) -> None:
    file = appended(empty(tmp_path), values(20), COLUMNS)
    path = file.files[which].path
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    expected = (
        rf"{path.name}: {len(whole) - 1} bytes, expected {len(whole)}; see `slimdex repair .*`"
    )
    with pytest.raises(CorruptError, match=expected):
        DocumentFile(tmp_path, file.lines, 20)
    with pytest.raises(CorruptError, match=expected):
        file.open()
    path.unlink()
    with pytest.raises(CorruptError, match=f"{path.name}: 0 bytes"):
        DocumentFile(tmp_path, file.lines, 20)


def test_later_lines_are_compressed_by_the_first(tmp_path: Path) -> None:
    written, whole = values(4000), appended(empty(tmp_path), values(4000), COLUMNS)
    plain, stored = b"".join(map(line_of, written)), whole.files[0].path.read_bytes()
    assert stored[: lines.DICTIONARY] == plain[: lines.DICTIONARY]
    assert len(stored) - lines.DICTIONARY < (len(plain) - lines.DICTIONARY) / 2
    (tmp_path / "parts").mkdir()
    parts = empty(tmp_path / "parts")
    for first in range(0, 4000, 500):
        parts = appended(parts, values(500, first), COLUMNS)
    assert parts.files[0].path.read_bytes() == stored
    assert parts.documents(range(4000), COLUMNS) == as_documents(written)


@settings(max_examples=CHANCE.examples(40))
@given(st.lists(ROWS), st.lists(ROWS), st.lists(ROWS), st.integers(1, 200), st.booleans())
def test_lines_compressed_before_are_those_compressed_as_they_are_appended(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[tuple[Any, ...]],
    others: list[tuple[Any, ...]],
    later: list[tuple[Any, ...]],
    dictionary: int,
    is_same: bool,
) -> None:
    """By the dictionary of this file, or of another one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "DICTIONARY", dictionary)
        file, other = (
            appended(empty(tmp_path_factory.mktemp("file")), each, COLUMNS)
            for each in (first, first if is_same else others)
        )
        known = other.compress(map(line_of, [*later[::2], *others]))
        expected = stored(appended(file, later, COLUMNS))
        assert stored(appended(file, later, COLUMNS, known)) == expected


def stored(file: DocumentFile) -> list[bytes]:
    return [each.path.read_bytes() for each in file.files]


def test_a_long_line_stays_plain_and_a_forged_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "DICTIONARY", 10)
    documents = [("a", "", "x" * 10), ("b", "", "y" * (500 - len('["b","",""]\n'))), ("c", "", "z")]
    file = appended(empty(tmp_path), documents, {})
    assert [*file.documents(range(3), {})] == [0, 1, 2]
    assert line_of(documents[1]) not in file.files[0].path.read_bytes()
    monkeypatch.setattr(lines, "MOST_COMPRESSED", 400)
    with pytest.raises(CorruptError, match=r"row 1 is damaged.*not compressed by slimdex"):
        file.documents([1], {})
    file = appended(empty(tmp_path), documents, {})
    assert line_of(documents[1]) in file.files[0].path.read_bytes()
    assert [*file.documents(range(3), {})] == [0, 1, 2]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("dictionary", [lines.DICTIONARY, 100])
def test_every_flipped_byte_is_detected(
    tmp_path: Path, which: int, dictionary: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By who reads its row: of the lines as of where they are."""
    monkeypatch.setattr(lines, "DICTIONARY", dictionary)
    file = appended(empty(tmp_path), values(20), COLUMNS)
    path = file.files[which].path
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        damaged = DocumentFile(tmp_path, file.lines, 20)
        with pytest.raises(CorruptError, match=r"damaged.*; see `slimdex repair .*`"):
            damaged.documents(range(20), COLUMNS)
    path.write_bytes(whole)
    assert file.documents(range(20), COLUMNS) == as_documents(values(20))


@pytest.mark.parametrize(
    "line",
    [
        ("a",),
        ("a", "", 5),
        ("a", "", "x", "{"),
        ("a", "", ["x", [[0, "1"]], []], None),
        ("a", "", ["x", [[-1, 1]], []], None),
        ("a", "", ["x", [[0, 1]], [[0, [5], None, ""]]], None),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, line: tuple[Any, ...]) -> None:
    """A stranger's checksums can be right."""
    file = appended(empty(tmp_path), [line], {"n": "JSON"})
    with pytest.raises(CorruptError, match=r"documents-000001\.jsonl: row 0 is damaged, at byte 0"):
        file.documents([0], {"n": "JSON"})


TYPES = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128"],
    "UTINYINT": ["255"],
    "SMALLINT": ["-32768"],
    "INTEGER": ["7"],
    "UINTEGER": ["4294967295"],
    "BIGINT": ["-9223372036854775808"],
    "UBIGINT": ["18446744073709551615"],
    "HUGEINT": ["170141183460469231731687303715884105727"],
    "FLOAT": ["0.1"],
    "DOUBLE": ["0.1", "-0.0", "5e-324"],
    "DECIMAL(18,3)": ["1.5", "-0.001"],
    "DECIMAL(38,10)": ["9999999999999999999999999999.0000000001"],
    "VARCHAR": [
        r"'a \"quoted\" \\ text'",
        '\'{"date":"2024-01-02"}\'',
        "chr(8232) || chr(10) || chr(0)",
    ],
    "BLOB": [r"'\x00\xFF'", "''"],
    "DATE": ["'2024-02-29'", "'0001-01-01'", "'9999-12-31'", "'infinity'", "'20000-01-01'"],
    "TIME": ["'10:00'", "'23:59:59.999999'", "'24:00:00'"],
    "TIMESTAMP": ["'2024-01-02 03:04:05.000006'", "'2024-01-02'", "'-infinity'"],
    "TIMESTAMP_S": ["'2024-01-02 03:04:05'"],
    "TIMESTAMP_MS": ["'2024-01-02 03:04:05.006'"],
    "TIMESTAMP_NS": ["'2024-01-02 03:04:05.000006007'"],
    "INTERVAL": ["'3 days'", "'-2 hours'", "'5 microseconds'"],
    "UUID": ["'00000000-0000-0000-0000-000000000001'"],
    "BIT": ["'10101'"],
    "VARCHAR[]": ["['a', NULL]", "[]"],
    "DATE[][]": ["[['2024-01-02'], NULL]"],
    "DOUBLE[2]": ["[1, 2]"],
    "STRUCT(date VARCHAR, n BIGINT)": ["{'date': 'soon', 'n': 1}"],
    "STRUCT(day DATE, inner_ STRUCT(x BLOB))[]": ["[{'day': '2024-01-02', 'inner_': {'x': 'a'}}]"],
    "MAP(VARCHAR, BIGINT)": ["MAP {'a': 1}"],
    "JSON": ["'{\"a\": [1, null, 2.50]}'", "'null'", "'\"text\"'"],
    "TIMESTAMP WITH TIME ZONE": ["'2024-01-02 03:04:05+02'"],
}


def relation() -> Any:
    """Documents with a column of each type, which has no value where there are no more of them."""
    rows = []
    for i in range(1 + max(map(len, TYPES.values()))):
        values = [(t, v[i] if i < len(v) else "NULL") for t, v in TYPES.items()]
        columns = [f"CAST({v} AS {t}) AS v{n}" for n, (t, v) in enumerate(values)]
        rows.append(f"SELECT 'd{i}' AS id, 'text {i}' AS text, {', '.join(columns)}")
    return duckdb.sql(" UNION ALL ".join(rows))


def same(collection: Collection) -> None:
    """The file says what the catalog says, to the type, and iteration and hits say it, too."""
    state, store = collection.index.state, collection.index.store
    snapshot = collection.index.snapshot
    file = snapshot.store.document_file
    assert file is not None
    assert file.rows == state.rows
    rows = range(state.rows)
    expected = store.read(rows)
    assert repr(file.documents(rows, snapshot.columns)) == repr(expected)
    live = [expected[row] for row in np.setdiff1d(np.arange(state.rows), snapshot.deleted)]
    assert repr([*collection]) == repr(live)
    assert repr(collection.get([d.id for d in live])) == repr(live)


def test_values_of_every_type_are_the_catalogs(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        collection.add(relation())
        assert len(collection.index.store.columns) == len(TYPES)
        same(collection)
        (hits,) = collection.search_many(["text"], limit=9)
        values = collection.index.store.read(range(9)).values()
        actual = {repr((d.id, d.metadata)) for d in values}
        assert {repr((hit.id, hit.metadata)) for hit in hits} == actual
    assert verify(tmp_path / "x") == []


METADATA = st.dictionaries(
    st.sampled_from(["a", "b", "C"]),
    st.one_of(st.integers(-9, 9), st.none(), st.dates(), st.text("xy\n", max_size=3)),
    max_size=3,
)
Change = tuple[str, dict[str, Any]]
CHANGE = st.tuples(
    st.sampled_from(["add", "add", "delete", "compact", "reopen", "rebuild"]),
    st.dictionaries(st.sampled_from("0123456789"), METADATA, min_size=1, max_size=5),
)


@pytest.mark.slow
@settings(max_examples=CHANCE.examples(5))
@given(changes=st.lists(CHANGE, max_size=8))
def test_file_and_catalog_agree_after_any_changes(
    tmp_path_factory: pytest.TempPathFactory, changes: list[Change]
) -> None:
    path = tmp_path_factory.mktemp("changes") / "x"
    collection = Collection.create(path, WordEncoder(8))
    collection.add([Document("first", "a text")])
    for change, documents in changes:
        if change == "add":
            new = [Document(id, f"text {id} {m}", metadata=m) for id, m in documents.items()]
            try:
                collection.add(new)
            except InputError:  # numbers are not mixed with texts
                continue
        elif change == "delete":
            collection.delete([id for id in documents if id in collection])
        elif change == "compact":
            collection.compact()
        elif change == "rebuild":
            writer.rebuild(collection.index)
        else:
            collection.close()
            collection = Collection.open(path, WordEncoder(8))
        same(collection)
    collection.close()
    assert verify(path) == []


@pytest.fixture
def collection(tmp_path: Path, copied: Copies) -> Iterator[Collection]:
    with Collection.open(copied(tmp_path / "x.index", 300), WordEncoder()) as collection:
        yield collection


def test_an_addition_writes_only_its_own_lines(
    collection: Collection, docstrings: list[Document]
) -> None:
    before = collection.index.state.lines
    assert before is not None
    (file,) = collection.path.glob("documents*")
    inode, bytes_ = file.stat().st_ino, file.read_bytes()
    collection.add(docstrings[300:310])
    (again,) = collection.path.glob("documents*")
    assert (again.name, again.stat().st_ino) == (before.documents, inode)
    assert again.read_bytes()[: len(bytes_)] == bytes_
    same(collection)


def test_damage_to_an_unread_document_does_no_harm(
    collection: Collection, docstrings: list[Document]
) -> None:
    (file,) = collection.path.glob("documents*")
    file.write_bytes(b"x" + file.read_bytes()[1:])
    assert collection.get(docstrings[7].id) == collection.index.store.read([7])[7]
    with pytest.raises(CorruptError, match="row 0 is damaged, at byte 0"):
        collection.get(docstrings[0].id)


@pytest.mark.slow
def test_threads_read_documents_while_they_change_places(tmp_path: Path) -> None:
    def documents(first: int, count: int) -> list[Document]:
        numbers = range(first, first + count)
        return [Document(f"d{i}", f"text number {i}", metadata={"n": i}) for i in numbers]

    def check(found: Iterable[Document | Hit]) -> int:
        each = [(d.id, d.text, d.metadata["n"]) for d in found]
        assert all((id, text) == (f"d{n}", f"text number {n}") for id, text, n in each)
        return len(each)

    def read() -> None:
        try:
            while not over.is_set():
                counts.append(check(collection.search_many("text number", limit=500)[0]))
                counts.append(check(collection))
                check(collection.get(["d0", "d1"]))
        except BaseException as error:
            errors.append(error)

    over, counts, errors = threading.Event(), list[int](), list[BaseException]()
    with Collection.create(tmp_path / "x", WordEncoder(8)) as collection:
        collection.add(documents(0, 100))
        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for i in range(1, 4):
            collection.add(documents(100 * i, 100))
            collection.delete([f"d{n}" for n in range(100 * i, 100 * i + 50)])
            collection.compact()
        over.set()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(counts) > 4
        assert {*counts} <= {*range(100, 451, 50)}  # whole commits
        same(collection)
    assert verify(tmp_path / "x") == []
