"""Made-up ids: files of the same name are kept apart, and a grown file replaces its own rows."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.writer import Added
from slimdex.retrieval.operations.building import Sources, add, build
from slimdex.retrieval.sources.source import read_pairs
from tests.encoders import WordEncoder, failing

REPORT = "text,amount\n"
JAN, FEB = REPORT + "rent paid,1\nfood bought,2\n", REPORT + "a car sold,3\na boat sold,4\n"


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, text in (("jan", JAN), ("feb", FEB)):
        Path(folder).mkdir()
        Path(folder, "report.csv").write_text(text)


def built(*specs: str) -> Added:
    collection, added = build(Path("rep"), Sources.open(specs), WordEncoder, Settings())
    collection.close()
    return added


def added_to(index: str, *specs: str) -> Added:
    with Collection.open(index) as collection:
        dim = collection.state.dim
    with Collection.open(index, WordEncoder(dim)) as collection:
        return add(collection, Sources.open(specs))


def contents(index: str = "rep") -> dict[str, str]:
    with Collection.open(index) as collection:
        hits = collection.search_many(WordEncoder().encode(["paid"]), limit=100)[0]
    return {hit.id: hit.text for hit in hits}


BOTH = {
    "jan/report.csv:1": "rent paid",
    "jan/report.csv:2": "food bought",
    "feb/report.csv:1": "a car sold",
    "feb/report.csv:2": "a boat sold",
}


def test_files_of_one_name_in_different_folders() -> None:
    first = built("jan/report.csv")
    assert first.notes[0] == "jan/report.csv: no id column; ids are jan/report.csv:1, ..."
    second = added_to("rep", "feb/report.csv")
    assert (second.documents, second.replaced) == (2, 0)
    assert contents() == BOTH


def test_files_of_one_name_in_one_build() -> None:
    added = built("jan/report.csv", "./feb//report.csv")
    assert added.notes[0] == (
        "2 files have no id column; ids are jan/report.csv:1, ...; feb/report.csv:1, ..."
    )
    assert contents() == BOTH


@pytest.mark.slow
def test_one_name_in_different_working_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("jan")
    collection, _ = build(Path("../rep"), Sources.open(["report.csv"]), WordEncoder, Settings())
    collection.close()
    monkeypatch.chdir("../feb")
    added = added_to("../rep", "report.csv")
    assert (added.documents, added.replaced) == (2, 0)
    assert added.notes[:2] == [
        "report.csv: no id column; ids are feb/report.csv:1, ...",
        "report.csv:1, ... are of another file",
    ]
    assert contents("../rep") == {
        "report.csv:1": "rent paid",
        "report.csv:2": "food bought",
        "feb/report.csv:1": "a car sold",
        "feb/report.csv:2": "a boat sold",
    }


@pytest.mark.slow
def test_a_grown_file_is_recognised_by_any_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built("jan/report.csv")
    Path("jan/report.csv").write_text(JAN.replace("food", "bread") + "shoes bought,9\n")
    added = added_to("rep", str(tmp_path / "jan/report.csv"))
    assert (added.documents, added.replaced, added.unchanged) == (2, 1, 1)
    monkeypatch.chdir("jan")
    assert added_to("../rep", "report.csv").unchanged == 3
    monkeypatch.chdir("..")
    assert contents() == {
        "jan/report.csv:1": "rent paid",
        "jan/report.csv:2": "bread bought",
        "jan/report.csv:3": "shoes bought",
    }


@pytest.mark.slow
def test_a_folder_that_has_moved_keeps_its_ids_while_no_document_would_be_lost() -> None:
    built("jan/report.csv")
    os.rename("jan", "old")
    Path("jan").mkdir()
    Path("jan/report.csv").write_text(JAN + "shoes bought,9\n")
    added = added_to("rep", "jan/report.csv")
    assert (added.documents, added.replaced, added.unchanged) == (1, 0, 2)
    os.rename("jan", "jan2")
    os.rename("old", "jan")
    os.rename("jan2/report.csv", "report.csv")
    Path("jan/report.csv").unlink()
    os.symlink("../report.csv", "jan/report.csv")  # another place, the same documents
    Path("report.csv").write_text(JAN.replace("food", "bread"))
    added = added_to("rep", "jan/report.csv")
    assert (added.documents, added.replaced, added.unchanged) == (2, 0, 0)
    assert contents()["jan/report.csv:2"] == "food bought"
    (other,) = (id for id, text in contents().items() if text == "bread bought")
    assert other == f"{Path.cwd().name}/report.csv:2"


@pytest.mark.slow
def test_a_document_with_an_id_given_by_the_user_is_not_replaced() -> None:
    collection = Collection.create("rep", WordEncoder())
    collection.add([Document("jan/report.csv:2", "mine"), Document("x", "other")])
    collection.close()
    assert added_to("rep", "jan/report.csv").replaced == 0
    assert contents()["jan/report.csv:2"] == "mine"
    assert len(contents()) == 4


@pytest.mark.slow
def test_an_addition_that_fails_keeps_no_origin() -> None:
    built("jan/report.csv")
    with Collection.open("rep", WordEncoder()) as collection:
        before = dict(collection.state.origins)
    Path("feb/report.csv").write_text("text,amount\nx,many\n")
    with pytest.raises(ValueError, match="holds BIGINT"):
        added_to("rep", "feb/report.csv")
    with Collection.open("rep", WordEncoder()) as collection:
        assert collection.state.origins == before
        assert len(before) == 1
        assert not any("report" in digest or "/" in digest for digest in before.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.tsv", "a.txt", "a.csv.gz", "corpus.jsonl"])
def test_every_kind_of_file_is_told_apart(name: str) -> None:
    for folder in ("jan", "feb"):
        text = {"csv": "text,n\nin {},1\n", "tsv": "text\tn\nin {}\t1\n", "txt": "in {}\n"}
        kind = name.removesuffix(".gz").rpartition(".")[2]
        data = text.get(kind, '{{"text": "in {}"}}\n').format(folder).encode()
        data = gzip.compress(data) if name.endswith(".gz") else data
        Path(folder, name).write_bytes(data)
    specs = ["jan", "feb"] if name == "corpus.jsonl" else [f"jan/{name}", f"feb/{name}"]
    assert built(*specs).documents == 2
    assert contents() == {f"jan/{name}:1": "in jan", f"feb/{name}:1": "in feb"}


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def pipe(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return pipe


@pytest.mark.slow
def test_piped_input_never_replaces_other_documents(piped: Callable[[str], Any]) -> None:
    piped("one\ntwo\n")
    assert built("-").notes[0] == "standard input: no id column; ids are stdin:1, ..."
    piped("three\n")
    assert added_to("rep", "-").replaced == 0
    piped("one\ntwo\nfour\n")  # has grown
    assert added_to("rep", "-").unchanged == 2
    piped("three\n")
    assert added_to("rep", "-").unchanged == 1
    assert contents() == {
        "stdin:1": "one",
        "stdin:2": "two",
        "stdin:3": "four",
        "stdin~2:1": "three",
    }


def test_queries_have_ids_without_a_folder() -> None:
    Path("jan/queries.txt").write_text("who?\n\nwhere?\n")
    assert read_pairs("jan/queries.txt") == [("queries.txt:1", "who?"), ("queries.txt:3", "where?")]


@pytest.mark.slow
def test_an_interrupted_addition_keeps_its_ids() -> None:
    built("jan/report.csv")
    sources = Sources.open(["feb/report.csv"])
    encoder = failing(WordEncoder(), after=-1)
    with Collection.open("rep", encoder) as collection, pytest.raises(KeyboardInterrupt):
        add(collection, sources)
    added_to("rep", "feb/report.csv")
    assert contents() == BOTH
    assert added_to("rep", "./feb/report.csv").unchanged == 2
