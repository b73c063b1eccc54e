"""Indexes of format 1, made of present ones: the same documents, in the files of before."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from slimdex.indexes.errors import CorruptError, InputError
from slimdex.retrieval.atomic_files import CATALOG, MANIFEST
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from tests.encoders import ReadingEncoder

LONG = " ".join(f"Sentence {i} of other{i} and word{i}." for i in range(9))
DOCUMENTS = [
    Document(str(i), f"word{i} {LONG}" if i % 4 else f"word{i}", metadata={"n": i, "l": ["a"]})
    for i in range(40)
]


def as_format_1(path: Path) -> None:
    """Put the documents and the state into one DuckDB file, as the first version did."""
    with Collection.open(path) as collection:
        manifest, store = collection.commit_log.manifest, collection.store
        entries = [(row, *lengths) for row, lengths in store.readings.of(range(9999)).items()]  # type: ignore[arg-type]
    state = json.loads(manifest.state.to_json())
    state |= {"staged": state["rows"], "encoded": state["rows"], "source": None, "given": False}
    segments = [path / segment.pop("name") for segment in state.pop("segments")]
    for name in ("readings", "readings_count"):
        state.pop(name)
    with duckdb.connect(str(path / CATALOG)) as connection:
        for number, segment in enumerate(segments):
            connection.execute(f"ATTACH '{segment}' AS s{number} (READ_ONLY)")
        for table in ("documents", "passages"):
            each = " UNION ALL BY NAME ".join(f"FROM s{n}.{table}" for n in range(len(segments)))
            connection.execute(f"CREATE TABLE {table} AS {each}")
        connection.execute("ALTER TABLE documents ADD COLUMN deleted BOOLEAN")
        gone = manifest.deleted.tolist()
        connection.execute('UPDATE documents SET deleted = "row" IN (SELECT unnest(?))', [gone])
        connection.execute('CREATE TABLE partly_read("row" BIGINT, tokens BIGINT, read BIGINT)')
        if entries:
            connection.executemany("INSERT INTO partly_read VALUES (?, ?, ?)", entries)
        connection.execute("CREATE TABLE blocks(file VARCHAR, block BIGINT, sha256 VARCHAR)")
        for file in manifest.checksums.digits:
            for block in manifest.checksums.of(file).items():
                connection.execute("INSERT INTO blocks VALUES (?, ?, ?)", [file, *block])
        connection.execute(
            'CREATE TABLE state(format INTEGER, "rows" BIGINT, epoch BIGINT, version BIGINT, '
            "body JSON)"
        )
        row = [1, state["rows"], state["epoch"], state["version"], json.dumps(state)]
        connection.execute("INSERT INTO state VALUES (?, ?, ?, ?, ?)", row)
    (path / MANIFEST).unlink()
    for file in (*segments, *path.glob("readings-*")):
        file.unlink()
    (path / "head.bin").write_bytes(b"old")


def seen(path: Path) -> Any:
    """All that an index says."""
    with Collection.open(path, ReadingEncoder()) as collection:
        facts = collection.info()
        assert collection.verify() == []
        return (
            [*collection],
            facts["columns"],
            facts["passages"],
            facts.get("partly_read"),
            collection.snapshot.deleted.tolist(),
            collection.snapshot.textless.tolist(),
            [hit.id for hit in collection.search("sentence of other3", 20)],
            collection.count("n < 20"),
        )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.index"
    with Collection.create(path, ReadingEncoder()) as collection:
        collection.add(DOCUMENTS)
        collection.add([Document("empty", ""), Document("other", "x", metadata={"m": "y"})])
        collection.delete(["3", "5"])
        collection.add([Document("7", "changed", metadata={"n": 0.5})])
    return path


def test_it_is_converted_and_says_the_same(path: Path) -> None:
    expected = seen(path)
    as_format_1(path)
    assert seen(path) == expected
    assert (path / MANIFEST).exists()
    with Collection.open(path, ReadingEncoder()) as collection:
        collection.add([Document("new", LONG)])
        assert not (path / CATALOG).exists()
        assert collection.compact() == 3
        assert collection.verify() == []


def test_an_unfinished_addition_is_refused(path: Path) -> None:
    as_format_1(path)
    with duckdb.connect(str(path / CATALOG)) as old:
        ((body,),) = old.execute("SELECT body FROM state").fetchall()
        state = json.loads(body)
        old.execute(
            "UPDATE state SET body = ?", [json.dumps(state | {"staged": state["rows"] + 1})]
        )
    with pytest.raises(InputError, match="an addition that an older slimdex began"):
        Collection.open(path)
    assert not (path / MANIFEST).exists()


def test_a_kill_at_any_step_leaves_one_format_or_the_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = seen(path)
    as_format_1(path)
    steps = 0
    while True:
        steps += 1
        copy, left = Path(shutil.copytree(path, path.parent / f"{steps}.index")), steps

        def dying(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                nonlocal left
                left -= 1
                if left <= 0:
                    raise KeyboardInterrupt
                return function(*args, **options)

            return call

        with monkeypatch.context() as patch:
            for name in ("fsync", "replace", "unlink"):
                patch.setattr(os, name, dying(getattr(os, name)))
            try:
                Collection.open(copy, ReadingEncoder()).close()
            except KeyboardInterrupt:
                pass
            else:
                break
        assert seen(copy) == expected
    assert steps > 6


def test_what_is_not_of_format_1_is_refused(path: Path) -> None:
    as_format_1(path)
    whole = (path / CATALOG).read_bytes()
    (path / f"{CATALOG}.journal").write_bytes(b"")
    with pytest.raises(InputError, match="an interrupted commit of an older slimdex"):
        Collection.open(path)
    (path / f"{CATALOG}.journal").unlink()
    for change in (
        "UPDATE state SET format = 0",
        "DROP TABLE passages",
        "UPDATE state SET body = '{}'",
        "DELETE FROM state",
        "CREATE VIEW v AS SELECT 1",
    ):
        with duckdb.connect(str(path / CATALOG)) as connection:
            connection.execute(change)
        with pytest.raises(CorruptError, match=CATALOG):
            Collection.open(path)
        (path / CATALOG).write_bytes(whole)
    Collection.open(path).close()
