"""Older catalogs are migrated by numbered steps; newer ones are refused.

data/format-1.tar.gz is a folder that the slimdex of format 1 wrote: 12 documents, one deleted, one
replaced. data/format-2.tar.gz is one of format 2: 12 documents, of which d4 and d7 have no
text, d3 and d7 were deleted and d0 was replaced. data/format-3.tar.gz is one of format 3: 12
documents, of which d4 has no text, d3 was deleted and d0 was replaced; data/format-4.tar.gz is one
of format 4 of the same documents, reduced by settings of its own, and data/format-5.tar.gz one of
format 5 of others like them. data/format-6.tar.gz has documents that are cut: 13, of which d3 was
deleted and d0 replaced. data/format-7.tar.gz is one of a file that was brought in step: of d0 to
d11, some of which are cut, d3 is gone and d0 was replaced.
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
import numpy as np
import pytest
from typer.testing import CliRunner

from slimdex.indexes.errors import CorruptError, InputError
from slimdex.indexes.moments import Moments
from slimdex.indexes.settings import Settings
from slimdex.retrieval.atomic_files import CATALOG
from slimdex.retrieval.building import Sources
from slimdex.retrieval.catalog.database import Database
from slimdex.retrieval.catalog.migrations import NEEDS, STEPS, migrate
from slimdex.retrieval.catalog.state import FORMAT
from slimdex.retrieval.cli.app import app
from slimdex.retrieval.collection.collection import Collection
from slimdex.retrieval.collection.repair import repair, verify
from slimdex.retrieval.documents import Document
from slimdex.retrieval.syncing import sync
from tests.encoders import ReadingEncoder, WordEncoder

FIXTURE = Path(__file__).parents[2] / "data" / "format-1.tar.gz"
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
        found = collection.search_many(["cat in the garden", "snow"], limit=5)
        (hit,) = collection.search_many("a new text", limit=1, where="more = 1.5")[0]
        days = collection.search_many("cat", limit=1, where="day = DATE '2020-01-12'")
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
        assert len(collection._deleted) == 2
    assert verify(path) == []
    check_whole(path)
    assert tables(path)[1] == [(FORMAT,)]
    with Collection.open(path, WordEncoder(8)) as collection:
        collection.add([Document("new", "snow", metadata={"n": 5, "kind": "x"})])
        collection.compact()
        assert {"new", "d11"} < {hit.id for hit in collection.search_many("snow", limit=12)[0]}
    assert verify(path) == []
    fresh = path.parent / "fresh"
    Collection.create(fresh, WordEncoder(8)).close()
    databases = [Database(folder / CATALOG, read_only=True) for folder in (path, fresh)]
    with closing(databases[0]) as migrated, closing(databases[1]) as made:
        for sql in (
            "DESCRIBE state",
            "DESCRIBE blocks",
            "DESCRIBE partly_read",
            "DESCRIBE passages",
            "FROM duckdb_views() WHERE NOT internal",
        ):
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
        assert collection._state.dim == 8
    check_whole(path)


def test_a_step_changes_the_state(path: Path) -> None:
    def larger(database: Database, state: dict[str, Any]) -> None:
        STEPS[1](database, state)
        state["generation"] += 10

    database = Database(path / CATALOG, read_only=False)
    migrate(database, 1, {**STEPS, 1: larger})
    database.close()
    with Collection.open(path, WordEncoder(8)) as collection:
        assert collection._state.generation == 14


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


@pytest.fixture
def second(tmp_path: Path) -> Path:
    with tarfile.open(FIXTURE.with_name("format-2.tar.gz")) as archive:
        archive.extractall(tmp_path / "second", filter="data")
    return tmp_path / "second"


def test_documents_without_text_leave_the_searches_of_an_older_index(second: Path) -> None:
    with Collection.open(second, WordEncoder(8)) as collection:
        assert len(collection) == 10
        found = collection.search_many(["cat in the garden", "party"], limit=12)
    ids = [[hit.id for hit in hits] for hits in found]
    assert ids[0] == ["d6", "d2", "d8", "d11", "d0", "d5", "d9", "d1", "d10"]  # d4 came before d10
    assert sorted(ids[1]) == sorted(ids[0])
    assert found[0][0].score == pytest.approx(0.8426, abs=1e-4)
    assert verify(second) == []
    with Collection.open(second, WordEncoder(8), read_only=True) as collection:
        facts = collection.info()
    assert (facts["without_text"], facts["fitted_documents"]) == (1, None)
    assert facts["cut"] == {"documents": 0, "share_read": 1.0, "complete": False}


@pytest.mark.slow
@pytest.mark.parametrize("change", ["delete", "replace", "compact", "reduce", "rebuild"])
def test_moments_of_an_older_index_lose_its_documents_without_text(
    second: Path, change: str
) -> None:
    with Collection.open(second, WordEncoder(8)) as collection:
        if change == "delete":
            collection.delete("d4")
        elif change == "replace":
            collection.add([Document("d4", "a text at last"), Document("new", " ")])
        elif change == "compact":
            collection.compact()
        elif change == "reduce":
            collection.reduce(Settings(kind="flat", k=4))
        else:
            collection._rebuild(fit_anew=True)
        live = np.setdiff1d(np.arange(collection._state.rows), collection._hidden)
        expected = Moments(8).update(collection._vectors.take(live))
        assert collection._moments.n == expected.n == (10 if change == "replace" else 9)
        np.testing.assert_allclose(collection._moments.scatter, expected.scatter, atol=1e-5)
        assert "d4" not in {hit.id for hit in collection.search_many("party", limit=20)[0]} or (
            change == "replace"
        )
    assert verify(second) == []


@pytest.fixture
def third(tmp_path: Path) -> Path:
    with tarfile.open(FIXTURE.with_name("format-3.tar.gz")) as archive:
        archive.extractall(tmp_path / "third", filter="data")
    return tmp_path / "third"


@pytest.mark.slow
@pytest.mark.parametrize("change", ["add", "reduce", "compact", "rebuild"])
def test_documents_of_an_older_index_are_copied_by_the_next_change(
    third: Path, change: str
) -> None:
    """Until then the catalog is asked for them."""
    with pytest.raises(InputError, match=f"format 3, .* expected {FORMAT} .*slimdex upgrade"):
        Collection.open(third, read_only=True)
    with Collection.open(third, WordEncoder(8)) as collection:
        assert collection._state.lines is None
        assert collection.verify() == []
        before = [*collection]
        found = collection.search_many(["cat in the garden", "snow"], limit=5)
        if change == "add":
            collection.add([Document("new", "a flood", metadata={"n": 5})])
        elif change == "reduce":
            collection.reduce(Settings(kind="flat"))
        elif change == "compact":
            collection.compact()
        else:
            collection._rebuild()
        assert collection._state.lines is not None
        again = [document for document in collection if document.id != "new"]
        names = sorted(path.name.split("-")[0] for path in third.iterdir())
    assert [hit.id for hit in found[0]] == ["d8", "d6", "d1", "d11", "d2"]
    assert [hit.score for hit in found[1]] == pytest.approx(
        [0.67608, 0.48928, 0.2147, 0.21025, 0.1931], abs=1e-4
    )
    assert found[1][2].metadata == {"n": 100, "day": None, "tags": None, "more": 1.5}
    assert repr(again) == repr(before)
    assert before[0].metadata == {"n": 1, "day": date(2020, 1, 2), "tags": ["a", "1"], "more": None}
    assert (names.count("documents"), names.count("offsets")) == (1, 1)
    assert verify(third) == []


@pytest.fixture
def fourth(tmp_path: Path) -> Path:
    with tarfile.open(FIXTURE.with_name("format-4.tar.gz")) as archive:
        archive.extractall(tmp_path / "fourth", filter="data")
    return tmp_path / "fourth"


def test_of_an_older_index_nothing_is_proved(fourth: Path) -> None:
    with pytest.raises(InputError, match=f"format 4, .* expected {FORMAT} .*slimdex upgrade"):
        Collection.open(fourth, read_only=True)
    with Collection.open(fourth, WordEncoder(8)) as collection:
        state = collection._state
        assert (state.certificate, state.fit, state.generation) == (None, None, 5)
        assert state.settings == Settings(6, 0.0, 0.0, "flat", 5) == state.requested
        found = collection.search_many(["cat in the garden", "snow"], limit=5)
    assert [hit.id for hit in found[0]] == ["d8", "d6", "d1", "d7", "d2"]
    assert [hit.score for hit in found[1]] == pytest.approx(
        [0.76164, 0.65674, 0.38843, 0.31857, 0.27645], abs=1e-4
    )
    assert verify(fourth) == []


@pytest.fixture
def fifth(tmp_path: Path) -> Path:
    with tarfile.open(FIXTURE.with_name("format-5.tar.gz")) as archive:
        archive.extractall(tmp_path / "fifth", filter="data")
    return tmp_path / "fifth"


def test_texts_of_an_older_index_are_not_cut(fifth: Path) -> None:
    """Nor are those that it gets: some that are cut beside others that are not say little."""
    with pytest.raises(InputError, match=f"format 5, .* expected {FORMAT} .*slimdex upgrade"):
        Collection.open(fifth, read_only=True)
    with Collection.open(fifth, WordEncoder(8)) as collection:
        assert collection._state.passages is None
        found = collection.search_many(["cat in the garden", "snow"], limit=5)
        facts = collection.info()
        collection.add([Document("new", "a long text. " * 99)])
        assert (len(collection), collection._state.rows) == (12, 14)
    assert [hit.id for hit in found[0]] == ["d7", "d1", "d6", "d0", "d8"]
    assert [hit.score for hit in found[1]] == pytest.approx(
        [0.68722, 0.67942, 0.45856, 0.38843, 0.32994], abs=1e-4
    )
    assert (found[0][0].start, found[0][0].end) == (0, len(found[0][0].text))
    assert (facts["documents"], facts["deleted"]) == (11, 2)
    assert facts["passages"] == {"tokens": None, "documents_cut": 0, "rows": 11}
    assert verify(fifth) == []


@pytest.fixture
def sixth(tmp_path: Path) -> Path:
    with tarfile.open(FIXTURE.with_name("format-6.tar.gz")) as archive:
        archive.extractall(tmp_path / "sixth", filter="data")
    return tmp_path / "sixth"


def test_of_older_documents_nobody_knows_where_they_came_from(sixth: Path) -> None:
    """So a sync deletes none of them; what it finds again it knows from then on."""
    with pytest.raises(InputError, match=f"format 6, .* expected {FORMAT} .*slimdex upgrade"):
        Collection.open(sixth, read_only=True)
    table = sixth.parent / "some.jsonl"
    with Collection.open(sixth, ReadingEncoder(8, 16)) as collection:
        found = [collection.search(query, limit=4) for query in ("n5 2 does w3", "alpha beta")]
        assert (len(collection), collection._state.rows) == (12, 46)
        rows = [{"id": d.id, "text": d.text, "title": d.title, **d.metadata} for d in collection]
        table.write_text("".join(f"{json.dumps(row)}\n" for row in rows[:8]))
        added = sync(collection, Sources.open(str(table)))
        assert (added.deleted, added.encoded, len(collection)) == (0, 0, 12)
        table.write_text("".join(f"{json.dumps(row)}\n" for row in rows[:6]))
        assert sync(collection, Sources.open(str(table))).deleted == 2
        assert len(collection) == 10
    assert [(hit.id, hit.start, hit.end) for hits in found for hit in hits] == [
        *[("d10", 44, 88), ("d5", 42, 84), ("d7", 0, 20), ("d6", 0, 20)],
        *[("parts", 221, 240), ("d5", 211, 254), ("d0", 0, 24), ("d10", 0, 43)],
    ]
    assert [hit.score for hit in found[0]] == pytest.approx(
        [0.89676, 0.8853, 0.5386, 0.49375], abs=1e-4
    )
    assert verify(sixth) == []


@pytest.fixture
def seventh(tmp_path: Path) -> Path:
    with tarfile.open(FIXTURE.with_name("format-7.tar.gz")) as archive:
        archive.extractall(tmp_path / "seventh", filter="data")
    return tmp_path / "seventh"


def test_an_older_index_has_no_words_and_may_get_them(seventh: Path) -> None:
    with pytest.raises(InputError, match=f"format 7, .* expected {FORMAT} .*slimdex upgrade"):
        Collection.open(seventh, read_only=True)
    with Collection.open(seventh, ReadingEncoder(8, 16)) as collection:
        assert (len(collection), collection._state.rows) == (11, 33)
        found = [(hit.id, hit.start) for hit in collection.search("w3 d5", 4, hybrid="auto")]
        assert found == [("d5", 42), ("d0", 0), ("d4", 0), ("d11", 44)]
        with pytest.raises(InputError, match="no words' index"):
            collection.search("d5", hybrid=0.5)
        collection.index_words()
        assert collection.search("d5", 1, hybrid=0.9)[0].id == "d5"
        collection.add([Document("new", "of the new one")])
        assert collection.search("new", 1, hybrid=0.9)[0].id == "new"
    assert verify(seventh) == []
