"""Names of the user's columns: any name works in every operation."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slimdex import Collection, Document, Settings, export
from slimdex.retrieval.documents import BUILT_IN_COLUMNS
from slimdex.retrieval.ingest.adding import sync
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.server.column_facts import column_facts
from slimdex.retrieval.sources.files import input_files
from slimdex.retrieval.sources.source import Sources
from slimdex.retrieval.sources.tabular.columns import ID_NAMES, TEXT_NAMES
from slimdex.system.duckdb_library import identifier
from tests.building import build
from tests.chance import CHANCE, sweep
from tests.encoders import ReadingEncoder

PLAIN = Settings(beta=0.0, gamma=0.0, reducer="identity", kind="flat", candidates=5)
LONG = " ".join(f"sentence number {i} has a few words." for i in range(12))
TEXTS = {"tea": "Boil the water.", "long": LONG, "rain": "rain and snow", "void": ""}
FAILED = ["tokens", "read", "starts", "ends", "contexts", "new", "old"]
ODD = ["t", "c0", "documents", "rowid", 'a"b', "a'b", "a.b", "a b", "Äpfel", "-- x", "*", "?", "$1"]
PASSAGE = ["vector", "passage_id", "passage", "start", "end", "line", "headings", "anchor"]
PASSAGE += ["last_line", "page"]
NOT_METADATA = {*BUILT_IN_COLUMNS, *ID_NAMES, *TEXT_NAMES}


@pytest.fixture(autouse=True)
def _unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "SETTLED_NS", 0)


def reserved_words() -> set[str]:
    with duckdb.connect() as scratch:
        sql = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        return {word for (word,) in scratch.execute(sql).fetchall()}


def different(names: Iterable[str]) -> list[str]:
    """Names that differ in more than case, and don't stand for id, text or title."""
    return [*{name.lower(): name for name in names if name.lower() not in NOT_METADATA}.values()]


def values(names: Sequence[str], id: str) -> dict[str, object]:
    """Whole numbers, texts and objects, so that columns of several types have these names."""
    kinds = (lambda i: i, lambda i: f"{id} {i}", lambda i: {"row": i, "new": [id]})
    return {name: kinds[i % 3](i) for i, name in enumerate(names)}


def documents(names: Sequence[str]) -> dict[str, Document]:
    return {
        id: Document(id, text, metadata=values(names, id)) for id, text in sorted(TEXTS.items())
    }


def write(path: Path, documents: Iterable[Document]) -> None:
    lines = ({"id": d.id, "text": d.text, **d.metadata} for d in documents)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def live(names: Sequence[str], folder: Path) -> None:
    """Check that an index with these columns holds the right documents after any operation."""
    told, path, notes = documents(names), folder / "index", folder / "notes.jsonl"
    write(notes, told.values())
    collection, _ = build(path, Sources.open([str(notes)]), ReadingEncoder, PLAIN)
    with collection:
        assert held(collection) == told
        change(collection, names, told)
        told["tea"] = Document("tea", "Buy coffee.", metadata=values(names, "more"))
        write(notes, (d for d in told.values() if d.id != "rain"))
        sync(collection.index, Sources.open([str(notes)]))
        told.pop("rain")
        assert held(collection) == told
        collection.reduce(PLAIN)
        check_searches(collection, names, told)
        column_facts(collection.index.store)
        check_exports(collection, names, told, folder)
    assert verify(path) == []
    with Collection.open(path, ReadingEncoder()) as collection:
        assert held(collection) == told


def change(collection: Collection, names: Sequence[str], told: dict[str, Document]) -> None:
    """Add, replace, replace by the same, delete, undo and compact."""
    told["new"] = Document("new", LONG + " And more.", metadata=values(names, "new"))
    told["long"] = Document("long", LONG.upper(), metadata=values(names, "longer"))
    added = collection.add([told["new"], told["long"], told["rain"]])
    assert (added.documents, added.replaced, added.unchanged) == (2, 1, 1)
    assert held(collection) == told
    collection.delete("void")
    collection.undo()
    collection.delete(["new", "void"])
    del told["new"], told["void"]
    collection.compact()
    assert held(collection) == told
    assert collection.verify() == []


def check_searches(collection: Collection, names: Sequence[str], told: dict[str, Document]) -> None:
    """A filter on each column finds the documents with the value."""
    for i, name in enumerate(names):
        if i % 3 == 1:
            for id, document in told.items():
                value = str(document.metadata[name]).replace("'", "''")
                where = f"{identifier(name)} = '{value}'"
                assert [d.id for d in collection.get(where=where)] == [id]
    every = " AND ".join(f"{identifier(name)} IS NOT NULL" for name in names[:200])
    hits = collection.search("rain and snow", 9, every)
    assert {hit.id: hit.metadata for hit in hits} == {d.id: d.metadata for d in told.values()}


def check_exports(
    collection: Collection, names: Sequence[str], told: dict[str, Document], folder: Path
) -> None:
    for to in ("jsonl", "csv", "parquet"):
        export(collection, folder / f"out.{to}", to)
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    for line in lines:
        ours = {name: line[name] for name in names if name.lower() not in PASSAGE}
        assert ours.items() <= told[line["id"]].metadata.items()
    with (folder / "out.csv").open(newline="") as file:
        assert len([*csv.DictReader(file)]) == len(lines)
    with duckdb.connect() as scratch:
        found = scratch.execute("SELECT count(*) FROM read_parquet(?)", [f"{folder}/out.parquet"])
        assert found.fetchall() == [(len(lines),)]


def held(collection: Collection) -> dict[str, Document]:
    return {document.id: document for document in collection}


@sweep
def test_keywords_and_odd_names_name_columns(tmp_path: Path) -> None:
    live(different([*CHANCE.sample(sorted(reserved_words()), 20), *FAILED, *ODD]), tmp_path)


@pytest.mark.slow
@settings(max_examples=CHANCE.examples(2))
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=4))
@example(["T"])
@example(["hash", "t"])
def test_any_text_names_a_column(names: list[str]) -> None:
    with TemporaryDirectory() as folder:
        live(different(["column", *names]), Path(folder))
