"""Older catalogs are migrated by numbered steps; newer ones are refused.

data/format-1.tar.gz is a folder that the slimdex of format 1 wrote: 12 documents, one deleted, one
replaced.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from indexes.errors import CorruptError, InputError
from indexes.settings import Settings
from retrieval.cli import app
from retrieval.collection import Collection
from retrieval.database import Database
from retrieval.documents import Document
from retrieval.files import CATALOG
from retrieval.integrity import repair, verify
from retrieval.migrations import NEEDS, STEPS, migrate
from retrieval.state import FORMAT
from tests.encoders import WordEncoder

FIXTURE = Path(__file__).parent.parent / "data" / "format-1.tar.gz"
ANSWERS = [
    [("d2", 0.60407), ("d1", 0.48924), ("d4", 0.48553), ("d10", 0.3773), ("d11", 0.31823)],
    [("d11", 0.83601), ("d2", 0.82549), ("d7", 0.77885), ("d10", 0.76502), ("d9", 0.70492)],
]
"""To two queries, of the slimdex that wrote it."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(tmp_path / "old", filter="data")
    return tmp_path / "old"


def tables(path: Path) -> Any:
    with duckdb.connect(str(path / CATALOG), read_only=True) as connection:
        return connection.execute("SELECT sql FROM duckdb_tables()").fetchall(), connection.execute(
            "SELECT format FROM state"
        ).fetchall()


def check_whole(path: Path) -> None:
    with Collection.open(path, WordEncoder(8), read_only=True) as collection:
        found = collection.search(["cat in the garden", "snow"], k=5)
        (hit,) = collection.search("a new text", k=1, where="more = 1.5")[0]
        days = collection.search("cat", k=1, where="day = DATE '2020-01-12'")
    assert [[hit.id for hit in hits] for hits in found] == [[id for id, _ in a] for a in ANSWERS]
    for hits, expected in zip(found, ANSWERS, strict=True):
        assert [hit.score for hit in hits] == pytest.approx([s for _, s in expected], abs=1e-4)
    assert (hit.id, hit.text, hit.metadata["n"]) == ("d0", "a new text for the first", 100)
    assert days[0][0].metadata["day"] == date(2020, 1, 12)


def test_every_format_has_a_step() -> None:
    assert list(STEPS) == list(range(1, FORMAT))


def test_a_writer_migrates_and_loses_nothing(path: Path) -> None:
    with Collection.open(path, WordEncoder(8)) as collection:
        assert len(collection) == 11
        assert len(collection.deleted) == 2
    assert verify(path) == []
    check_whole(path)
    assert tables(path)[1] == [(FORMAT,)]
    with Collection.open(path, WordEncoder(8)) as collection:
        collection.add([Document("new", "snow", metadata={"n": 5, "kind": "x"})])
        collection.compact()
        assert {"new", "d11"} < {hit.id for hit in collection.search("snow", k=12)[0]}
    assert verify(path) == []
    fresh = path.parent / "fresh"
    Collection.create(fresh, WordEncoder(8)).close()
    databases = [Database(folder / CATALOG, read_only=True) for folder in (path, fresh)]
    with closing(databases[0]) as migrated, closing(databases[1]) as made:
        for sql in ("DESCRIBE state", "DESCRIBE blocks", "FROM duckdb_views() WHERE NOT internal"):
            assert sorted(migrated.fetch(sql)) == sorted(made.fetch(sql))


def test_upgrade(path: Path) -> None:
    before = tables(path)
    for action in (lambda: Collection.open(path, read_only=True), lambda: verify(path)):
        with pytest.raises(InputError, match=f"format 1, .* expected {FORMAT} .*slimdex upgrade"):
            action()
    assert tables(path) == before
    for _ in range(2):
        done = CliRunner().invoke(app, ["upgrade", str(path), "--json"])
        assert (done.exit_code, json.loads(done.stdout)) == (0, {"format": FORMAT})
    check_whole(path)


@pytest.mark.slow
def test_repair_and_delete_migrate_too(path: Path) -> None:
    copy = Path(shutil.copytree(path, path.parent / "copy"))
    assert repair(path) == []
    check_whole(path)
    with Collection.open(copy, WordEncoder(8)) as collection:
        assert collection.delete(where="kind = 'house'") == 2
    assert verify(copy) == []


def test_a_step_that_fails_leaves_the_old_format(path: Path) -> None:
    def broken(database: Database, state: dict[str, Any]) -> None:
        STEPS[1](database, state)
        state["dim"] = 7
        raise ZeroDivisionError

    before = tables(path)
    database = Database(path / CATALOG, read_only=False)
    with pytest.raises(ZeroDivisionError):
        migrate(database, 1, {1: broken})
    database.close()
    assert tables(path) == before
    with Collection.open(path, WordEncoder(8)) as collection:
        assert collection.state.dim == 8
    check_whole(path)


def test_a_step_changes_the_state(path: Path) -> None:
    def larger(database: Database, state: dict[str, Any]) -> None:
        STEPS[1](database, state)
        state["generation"] += 10

    database = Database(path / CATALOG, read_only=False)
    migrate(database, 1, {**STEPS, 1: larger})
    database.close()
    with Collection.open(path, WordEncoder(8)) as collection:
        assert collection.state.generation == 14


def test_a_newer_format_is_refused_with_what_it_needs(tmp_path: Path) -> None:
    Collection.create(tmp_path / "x", WordEncoder(8), Settings()).close()
    for sql, expected in (
        (f"UPDATE state SET format = {FORMAT + 1}", f"slimdex {NEEDS} or newer"),
        ("UPDATE state SET needs = '9.7.0'", "slimdex 9.7.0 or newer"),
        ("UPDATE state SET needs = NULL", "slimdex of a newer version"),
        ("ALTER TABLE state DROP COLUMN needs", "slimdex of a newer version"),
    ):
        with duckdb.connect(str(tmp_path / "x" / CATALOG)) as connection:
            connection.execute(sql)
        for read_only in (True, False):
            with pytest.raises(InputError) as raised:
                Collection.open(tmp_path / "x", read_only=read_only)
            assert str(raised.value).endswith(
                f"format {FORMAT + 1}, this slimdex reads up to {FORMAT}; expected {expected}"
            )


@pytest.mark.parametrize("format_", ["0", "-1", "NULL"])
def test_what_is_no_format(path: Path, format_: str) -> None:
    with duckdb.connect(str(path / CATALOG)) as connection:
        connection.execute(f"UPDATE state SET format = {format_}")
    with pytest.raises(CorruptError, match="no slimdex catalog: format"):
        Collection.open(path)
