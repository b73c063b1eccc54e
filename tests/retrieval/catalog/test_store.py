from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path

import duckdb
import numpy as np
import pytest

from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.settings import Settings
from slimdex.retrieval.atomic_files import FileRecord
from slimdex.retrieval.catalog.state import FORMAT, Lines, State
from slimdex.retrieval.catalog.store import DocumentStore
from slimdex.retrieval.documents import Document


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    """An empty catalog, open for changes."""
    with created(tmp_path / "c.duckdb") as store:
        yield store


@contextmanager
def created(path: Path) -> Iterator[DocumentStore]:
    store = DocumentStore.create(path, State({}, 3, Settings()))
    with store.database.writing():
        yield store
    store.database.close()


def fill(store: DocumentStore, *documents: Document, rows: int | None = None) -> None:
    store.documents.insert(0, documents)
    count = len(documents) if rows is None else rows
    store.set_state(State({}, 3, Settings(), rows=count, staged=len(documents)))


def test_metadata_becomes_typed_columns(store: DocumentStore) -> None:
    fill(
        store,
        Document("a", "one", metadata={"n": 1, "f": 1, "d": date(2020, 1, 1), "odd name": "x"}),
        Document("b", "two", metadata={"n": None, "f": 0.5, "l": {"k": [1]}}),
        Document("c", "three", metadata={"mixed": 1}),
        Document("d", "four", metadata={"mixed": "s"}),
    )
    assert store.columns.committed == {
        "n": "BIGINT",
        "f": "DOUBLE",
        "d": "DATE",
        "odd name": "VARCHAR",
        "l": "JSON",
        "mixed": "VARCHAR",
    }
    documents = store.documents.read([1, 0])
    assert documents[0].metadata["d"] == date(2020, 1, 1)
    assert documents[1].metadata["l"] == {"k": [1]}
    assert store.documents.rows_where("\"odd name\" = 'x' OR f < 1", 9).tolist() == [0, 1]


def test_a_later_batch_adds_columns(store: DocumentStore) -> None:
    store.documents.insert(0, [Document("a", "one")])
    store.documents.insert(1, [Document("b", "two", metadata={"n": 4})])
    assert store.documents.read([0, 1])[0].metadata == {"n": None}
    assert store.documents.read([0, 1])[1].metadata == {"n": 4}


def test_a_value_that_does_not_fit_its_column(store: DocumentStore) -> None:
    store.documents.insert(0, [Document("a", "one", metadata={"n": 4})])
    with pytest.raises(InputError, match="'b': 'many' in column 'n'; expected BIGINT"):
        store.documents.insert(1, [Document("b", "two", metadata={"n": "many"})])
    for name in ("Text", "", 5):
        with pytest.raises(InputError, match=f"metadata {name!r}; expected a name other than row"):
            store.documents.insert(1, [Document("b", "two", metadata={name: "many"})])  # type: ignore[dict-item]


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
def test_a_column_widens_and_loses_nothing(
    store: DocumentStore, old: object, new: object, type_: str, found: list[object] | None
) -> None:
    with store.transaction():
        store.documents.insert(0, [Document("a", "one", metadata={"n": old})])
        store.documents.insert(1, [Document("b", "two", metadata={"N": new})])
    assert store.columns.committed == {"n": type_}
    values = [store.documents.read([0, 1])[row].metadata["n"] for row in (0, 1)]
    assert values == (found or [datetime(2020, 1, 2), datetime(2020, 1, 2, 3)])


def test_invalid_json_in_a_column_is_reported(tmp_path: Path) -> None:
    with created(tmp_path / "c.duckdb") as store, store.transaction():
        store.documents.insert(0, [Document("a", "one", metadata={"n": {}})])
    with duckdb.connect(str(tmp_path / "c.duckdb")) as stranger:
        stranger.execute("UPDATE documents SET n = ?", ["[" * 9000 + "]" * 9000])
    store = DocumentStore.open(tmp_path / "c.duckdb")
    with pytest.raises(CorruptError, match=r"c\.duckdb: column 'n': JSON that can't be read"):
        store.documents.read([0])


@pytest.mark.parametrize("columns", [0, 1, 496, 497, 498, 1100])
def test_two_documents_of_one_row(store: DocumentStore, columns: int) -> None:
    """Three columns of ours, and 500 that are read at once."""
    metadata = {f"c{i}": i for i in range(columns)}
    with store.transaction():
        store.documents.insert(0, [Document(f"id{i}", "one", metadata=metadata) for i in range(3)])
    assert store.documents.read([2, 0])[2] == Document("id2", "one", metadata=metadata)
    with store.transaction():
        store.database.execute('UPDATE documents SET "row" = 1 WHERE "row" = 2')
    with pytest.raises(CorruptError, match="several documents have the same row"):
        store.documents.read([0, 1])


@pytest.mark.parametrize(
    ("digits", "shown"), [(400, "a number of 1329 bits"), (5000, "a number of 16610 bits")]
)
def test_numbers_beyond_any_column(store: DocumentStore, digits: int, shown: str) -> None:
    """Python writes out no number of 5,000 digits, so no message may try to."""
    store.documents.insert(0, [Document("a", "x", metadata={"n": 0.5})])
    with pytest.raises(InputError, match=f"'b': {shown} would lose digits"):
        store.documents.insert(1, [Document("b", "y", metadata={"n": 10**digits})])


@pytest.mark.parametrize("first", [2**53 + 1, 0.5])
def test_no_number_loses_digits(store: DocumentStore, first: float) -> None:
    """Whole numbers that DOUBLE can't hold are not mixed with fractions."""
    second = 0.5 if isinstance(first, int) else 2**53 + 1
    store.documents.insert(0, [Document("a", "x", metadata={"n": first})])
    with pytest.raises(InputError, match="9007199254740993 would lose digits"):
        store.documents.insert(1, [Document("b", "y", metadata={"n": second})])
    store.documents.insert(1, [Document("b", "y", metadata={"n": 2})])
    assert store.documents.read([0])[0].metadata["n"] == first


def test_conditions_see_rows_before_an_end_and_ids_live_documents_only(
    store: DocumentStore,
) -> None:
    fill(store, *(Document(str(i), "t", metadata={"n": i}) for i in range(6)), rows=4)
    store.documents.delete(np.array([1]))
    assert store.documents.rows_where("n >= 0", 4).tolist() == [0, 1, 2, 3]
    assert store.ids.rows(["3", "0"]).tolist() == [0, 3]
    for gone in ("1", "4", "nope"):
        with pytest.raises(InputError, match=f"unknown id '{gone}'"):
            store.ids.rows(["0", gone])


def test_a_transaction_is_all_or_nothing(store: DocumentStore) -> None:
    def fail() -> None:
        with store.transaction():
            store.documents.insert(0, [Document("a", "one", metadata={"n": 4})])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.columns.committed == {}
    assert store.documents.contents(0, 9) == []


def test_a_state_survives_json() -> None:
    names = {"codes": "codes-000001.faiss"}
    names |= {role: f"{role}-000001.safetensors" for role in ("moments", "reducer", "rescorer")}
    state = State(
        {"type": "t"},
        3,
        Settings(k=2),
        Settings(kind="flat"),
        files={role: FileRecord(name, 3, "ab") for role, name in names.items()},
        norms="norms-000001.f32",
        lines=Lines("documents-000001.jsonl", "offsets-000001.bin", 70, {"n": "BIGINT"}),
        fit={"documents": 3, "rows": 4, "code_error": 0.5},
    )
    assert State.from_json(state.to_json()) == state
    more = {
        "norms-000001.f32",
        "vectors-000001.f16",
        "documents-000001.jsonl",
        "offsets-000001.bin",
    }
    assert state.file_names == {*names.values(), *more}
    with pytest.raises(CorruptError, match="state in the catalog"):
        State.from_json('{"dim": 3}')


@pytest.mark.parametrize(
    ("found", "error", "reason"),
    [
        (
            str(FORMAT + 1),
            InputError,
            f"format {FORMAT + 1}; expected {FORMAT} (made by a newer slimdex)",
        ),
        ("0", CorruptError, "not a slimdex catalog: format 0; expected 1 or more"),
        ("NULL", CorruptError, "not a slimdex catalog: format None; expected 1 or more"),
    ],
)
def test_another_format_is_refused(
    tmp_path: Path, found: str, error: type[Exception], reason: str
) -> None:
    path = tmp_path / "c.duckdb"
    DocumentStore.create(path, State({}, 3, Settings())).database.close()
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"UPDATE state SET format = {found}")
    with pytest.raises(error) as raised:
        DocumentStore.open(path)
    assert str(raised.value) == f"{path}: {reason}"


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "junk").write_bytes(b"junk" * 5000)
    with pytest.raises(CorruptError, match="not a slimdex catalog, or damaged"):
        DocumentStore.open(tmp_path / "junk")
    duckdb.connect(str(tmp_path / "other")).close()
    with pytest.raises(CorruptError, match="not a slimdex catalog, or damaged"):
        DocumentStore.open(tmp_path / "other")


UNCLOSED = """
import sys, threading, weakref
from pathlib import Path
from slimdex.retrieval.catalog.store import DocumentStore

store, gone = DocumentStore(Path(sys.argv[1])), threading.Event()
assert store.documents.read([0])[0].id == "a"
watch = weakref.ref(store.database, lambda _: gone.set())
del store
assert gone.wait(60)
"""


def test_a_process_that_closes_nothing_exits_normally(tmp_path: Path) -> None:
    """A thread closes the file soon after the last query, and releases it while Python ends.

    A thread that Python ends within DuckDB's destructors aborts the process.
    """
    with created(tmp_path / "c.duckdb") as store, store.database.transaction():
        fill(store, Document("a", "text"))
    for _ in range(5):
        command = [sys.executable, "-c", UNCLOSED, str(tmp_path / "c.duckdb")]
        assert subprocess.run(command, check=False).returncode == 0
