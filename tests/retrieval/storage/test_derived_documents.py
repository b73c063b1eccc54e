"""The documents' files say what the catalog says, whatever is in it and whatever changes."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import date, time, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.execution.progress import listening
from slimdex.retrieval.adding import add
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document, Hit
from slimdex.retrieval.encoders.given_encoder import GivenEncoder
from slimdex.retrieval.ingest import writer
from slimdex.retrieval.ingest.staging import Addition
from slimdex.retrieval.operations.repair import verify
from tests.chance import CHANCE
from tests.conftest import Copies
from tests.encoders import WordEncoder
from tests.slow import slow

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
    state, store = collection.state, collection.store
    snapshot = collection.snapshot
    file = snapshot.document_file()
    assert file is not None
    assert file.rows == state.rows
    rows = range(state.rows)
    expected = store.documents.read(rows)
    assert repr(file.documents(rows, snapshot.columns)) == repr(expected)
    live = [expected[row] for row in np.setdiff1d(np.arange(state.rows), snapshot.deleted)]
    assert repr([*collection]) == repr(live)
    assert repr(collection.get([d.id for d in live])) == repr(live)


def test_values_of_every_type_are_the_catalogs(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        collection.add(relation())
        assert len(collection.store.columns.types) == len(TYPES)
        same(collection)
        (hits,) = collection.search_many(["text"], limit=9)
        values = collection.store.documents.read(range(9)).values()
        actual = {repr((d.id, d.metadata)) for d in values}
        assert {repr((hit.id, hit.metadata)) for hit in hits} == actual
    assert verify(tmp_path / "x") == []


def add_with_zones(collection: Collection, ids: list[str]) -> None:
    """Documents with a column of times with zones, which earlier releases made."""
    when = time(10, tzinfo=timezone(timedelta(hours=2)))
    documents = [Document(id, "text", metadata={"v": when}) for id in ids]
    add(collection, Addition(documents, [{"v": "TIME WITH TIME ZONE"}]))


def test_times_with_zones_stay_in_the_catalog(tmp_path: Path) -> None:
    """No zone has a name that comes back the same everywhere: all documents come from DuckDB."""
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        collection.add([Document("a", "some text", metadata={"n": 1})])
        assert {path.name for path in (tmp_path / "x").glob("documents*")} == {
            "documents-000002.jsonl"
        }
        add_with_zones(collection, ["z"])
        assert collection.state.lines is None
        assert not [*(tmp_path / "x").glob("documents*"), *(tmp_path / "x").glob("offsets*")]
        expected = collection.store.documents.read([0, 1])
        assert expected[1].metadata["v"].tzinfo is not None
        assert repr([*collection]) == repr([*expected.values()])
        assert len(collection.search_many("text")[0]) == 2
        collection.delete("z")
        collection.compact()
        same(collection)
    assert verify(tmp_path / "x") == []


def test_an_iteration_over_segments_sees_no_compaction(tmp_path: Path) -> None:
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        add_with_zones(collection, [f"z{i}" for i in range(3000)])
        documents = iter(collection)
        assert next(documents).id == "z0"
        collection.delete("z1")
        collection.compact()
        assert [document.id for document in documents] == [f"z{i}" for i in range(1, 3000)]


WIDENED = [
    (True, 7),
    (date(2024, 1, 2), np.datetime64("2024-01-02T03:00")),
    ({"a": 1}, [2]),
    (None, 5),
]
OTHERS = [(2, 0.5), ([], [7]), (None, "perhaps")]


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), [*WIDENED, *slow(OTHERS)])
def test_a_column_that_is_widened_later(tmp_path: Path, old: Any, new: Any) -> None:
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        collection.add([Document("a", "one", metadata={"v": old, "w": 1})])
        before = collection.state.lines
        collection.add([Document("b", "two", metadata={"v": new, "more": "x"})])
        same(collection)
        lines = collection.state.lines
        assert before is not None
        assert lines is not None
        widened = before.columns.get("v") not in (None, lines.columns["v"])
        assert (lines.documents != before.documents) == widened
        collection.close()
    assert verify(tmp_path / "x") == []


def test_columns_that_unchanged_documents_widen(tmp_path: Path) -> None:
    """Then there is no commit of files: the catalog is asked until there is one."""
    document = Document("a", "one", metadata={"v": 2})
    with Collection.create(tmp_path / "x", WordEncoder()) as collection:
        collection.add([document])
        collection.add(duckdb.sql("SELECT 'a' AS id, 'one' AS text, CAST(2 AS DOUBLE) AS v"))
        assert repr(collection.get("a").metadata) == "{'v': 2.0}"
        assert repr([*collection]) == repr([*collection.store.documents.read([0]).values()])
        collection.add([Document("b", "two")])
        same(collection)
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
@settings(max_examples=CHANCE.examples(15))
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
            writer.rebuild(collection)
        else:
            collection.close()
            collection = Collection.open(path, WordEncoder(8))
        same(collection)
    collection.close()
    assert verify(path) == []


@pytest.mark.slow
def test_an_index_without_the_files_gets_them_with_the_next_addition(
    tmp_path: Path, docstrings: list[Document]
) -> None:
    """As one does that had a column of times with zones, and lost it."""
    path = tmp_path / "x"
    with Collection.create(path, WordEncoder()) as collection:
        collection.add(docstrings[:100])
        without = replace(collection.commit_log.next_state(), lines=None)
        collection.commit_log.commit(without)
    assert not [*path.glob("documents*"), *path.glob("offsets*")]
    assert verify(path) == []
    with Collection.open(path, WordEncoder()) as collection:
        assert [d.id for d in collection] == [d.id for d in docstrings[:100]]
        assert len(collection.search_many("parse a date", limit=7)[0]) == 7
    with Collection.open(path, WordEncoder()) as collection:
        collection.delete(docstrings[0].id)
        assert collection.state.lines is None
        collection.add(docstrings[100:110])
        same(collection)
    assert verify(path) == []


@pytest.fixture
def collection(tmp_path: Path, copied: Copies) -> Iterator[Collection]:
    with Collection.open(copied(tmp_path / "x.index", 300), WordEncoder()) as collection:
        yield collection


def test_an_addition_writes_only_its_own_lines(
    collection: Collection, docstrings: list[Document]
) -> None:
    before = collection.state.lines
    assert before is not None
    (file,) = collection.path.glob("documents*")
    inode, bytes_ = file.stat().st_ino, file.read_bytes()
    collection.add(docstrings[300:310])
    (again,) = collection.path.glob("documents*")
    assert (again.name, again.stat().st_ino) == (before.documents, inode)
    assert again.read_bytes()[: len(bytes_)] == bytes_
    same(collection)


def test_documents_that_are_being_added_are_not_seen(
    collection: Collection, docstrings: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def look(name: str, done: int, total: int) -> None:
        hits = collection.search_many(docstrings[305].content, limit=400)[0]
        seen.append((len(hits), len([*collection]), "more" in hits[0].metadata))

    new = [Document(d.id, d.text, d.title, {"more": 1}) for d in docstrings[290:310]]
    with listening(look):
        collection.add(new)
    assert {(hits, listed) for hits, listed, _ in seen} == {(300, 300)}
    assert len([*collection]) == 310


def test_a_snapshot_goes_on_reading_files_that_a_compaction_removed(
    collection: Collection, docstrings: list[Document]
) -> None:
    documents = iter(collection)
    first = next(documents)
    snapshot = collection.snapshot
    collection.delete([d.id for d in docstrings[:150]])
    collection.compact()
    collection.add(docstrings[300:400])
    assert len([*collection.path.glob("documents*")]) == 1
    assert [d.id for d in (first, *documents)] == [d.id for d in docstrings[:300]]
    assert snapshot.document_file() is not None
    same(collection)


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x10
    file.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "flip": flip,
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-5]),
    "remove": Path.unlink,
}


@pytest.mark.slow
@pytest.mark.parametrize("role", ["documents", "offsets"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_reported_when_read(collection: Collection, role: str, damage: str) -> None:
    """And found by `verify`, and repaired: see `test_repair.py`."""
    path = collection.path
    collection.close()
    (file,) = path.glob(f"{role}*")
    DAMAGE[damage](file)
    named = file.name if damage != "flip" else "documents"  # which of the two, a checksum can't say
    with Collection.open(path, WordEncoder()) as again:
        for read in (lambda: again.search_many("parse a date", limit=300), lambda: list(again)):
            with pytest.raises(CorruptError, match=rf"{named}.*`slimdex repair {path}` rebuilds"):
                read()
        assert again.count("id <> ''") == 300  # the catalog is whole


def test_damage_to_an_unread_document_does_no_harm(
    collection: Collection, docstrings: list[Document]
) -> None:
    (file,) = collection.path.glob("documents*")
    file.write_bytes(b"x" + file.read_bytes()[1:])
    assert collection.get(docstrings[7].id) == collection.store.documents.read([7])[7]
    with pytest.raises(CorruptError, match="row 0 is damaged, at byte 0"):
        collection.get(docstrings[0].id)


def test_a_full_disk_leaves_no_half_a_copy(
    collection: Collection, docstrings: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    before = {file.name for file in collection.path.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr("slimdex.retrieval.storage.document_file.line_of", full)
        for change in (
            lambda: collection.add(docstrings[300:310]),
            lambda: writer.rebuild(collection),
            lambda: (collection.delete(docstrings[0].id), collection.compact()),
        ):
            with pytest.raises(OSError, match="No space left"):
                change()
    roles = ("documents", "offsets")
    left = {file.name for file in collection.path.iterdir() if file.name.startswith(roles)}
    assert left == {name for name in before if name.startswith(roles)}
    collection.add(docstrings[300:310])
    same(collection)
    assert len(collection) == 309


def test_a_closed_collection_gives_no_documents(collection: Collection) -> None:
    collection.search_many("parse a date")
    documents = iter(collection)
    collection.close()
    for read in (lambda: collection.search_many("parse a date"), lambda: next(documents)):
        with pytest.raises(InputError, match="was closed; expected an open collection"):
            read()


def test_the_files_hold_what_the_catalog_of_a_copy_says(
    collection: Collection, docstrings: list[Document]
) -> None:
    """Files are found beside the catalog, wherever the folder is moved."""
    path = collection.path
    collection.close()
    moved = Path(shutil.move(path, path.parent / "moved.index"))
    with Collection.open(moved, WordEncoder()) as again:
        same(again)
        assert again.get(docstrings[3].id).text == docstrings[3].text


def test_given_vectors_have_documents_too(tmp_path: Path) -> None:
    documents = [Document(f"d{i}", f"text {i}", metadata={"n": i}) for i in range(3000)]
    vectors = np.random.default_rng(0).standard_normal((3000, 8)).astype(np.float32)
    with Collection.create(tmp_path / "x", GivenEncoder(8)) as collection:
        told = []
        with listening(lambda *step: told.append(step)):
            collection.add(documents, vectors=vectors)
        assert [step for step in told if step[0] == "copying documents"] == [
            ("copying documents", done, 3000) for done in (1024, 2048, 3000)
        ]
        same(collection)
        hits = collection.search_many(vectors[:50], limit=10)
        assert [actual[0].id for actual in hits] == [f"d{i}" for i in range(50)]
        assert all(hit.text == f"text {hit.metadata['n']}" for actual in hits for hit in actual)


@pytest.mark.parametrize("change", ["add", "compact"])
def test_a_document_whose_row_the_snapshot_does_not_have(
    collection: Collection, docstrings: list[Document], change: str
) -> None:
    """A change is committed, and its snapshot not shown yet: rows are those of another one."""
    before = collection.snapshot.opened()
    if change == "add":
        collection.add(docstrings[300:303])
    else:
        collection.delete([d.id for d in docstrings[:100]])
        collection.compact()
    expected = docstrings[301 if change == "add" else 299]
    collection.show(before)
    documents = collection.get([expected.id, docstrings[200].id])
    assert [(d.id, d.text) for d in documents] == [
        (d.id, d.text) for d in (expected, docstrings[200])
    ]
    assert collection.snapshot is not before


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
        for i in range(1, 6):
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
