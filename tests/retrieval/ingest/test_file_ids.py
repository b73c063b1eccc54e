"""Ids of files and of their rows: no file of another folder replaces them, and files may move."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.adding import sync
from slimdex.retrieval.ingest.addition_report import AdditionReport
from slimdex.retrieval.sources.source import Sources
from tests.building import add, build
from tests.encoders import WordEncoder, failing

REPORT = "text,amount\n"
JAN, FEB = REPORT + "rent paid,1\nfood bought,2\n", REPORT + "a car sold,3\na boat sold,4\n"


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path, text in {
        "home/notes/tea.md": "at home",
        "home/notes/plans/a.md": "plans at home",
        "job/notes/tea.md": "at job",
        "job/notes/plans/a.md": "plans at job",
        "jan/report.csv": JAN,
        "feb/report.csv": FEB,
    }.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)


def built(*specs: str, index: str = "x") -> AdditionReport:
    collection, added = build(Path(index), Sources.open(specs), WordEncoder, Settings())
    collection.close()
    return added


def added_to(*specs: str, index: str = "x") -> AdditionReport:
    with Collection.open(index, WordEncoder()) as collection:
        return add(collection, Sources.open(specs))


def synced(*specs: str, index: str = "x") -> AdditionReport:
    with Collection.open(index, WordEncoder()) as collection:
        return sync(collection.index, Sources.open(specs))


def contents(index: str = "x") -> dict[str, str]:
    with Collection.open(index, WordEncoder()) as collection:
        return {document.id: document.text for document in collection}


def write_all(folder: str, files: dict[str, str]) -> None:
    for path, text in files.items():
        Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
        Path(folder, path).write_text(text)


def last_words() -> dict[str, str]:
    return {id: text.split()[-1] for id, text in contents().items()}


def pipe(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


FOLDERS = {
    "plans/a.md": "home",
    "tea.md": "home",
    "notes/plans/a.md": "job",
    "notes/tea.md": "job",
}


@pytest.mark.slow
def test_another_folder_with_the_same_paths() -> None:
    assert built("home/notes", "job/notes").documents == 4
    assert last_words() == FOLDERS
    shutil.rmtree("x")
    built("home/notes")
    added = added_to("job/notes")
    assert (added.documents, added.replaced) == (2, 0)
    assert added.notes[0] == "job/notes: ids begin with notes/; shorter ones are of other files"
    assert last_words() == FOLDERS
    again = added_to(str(Path("job/notes").absolute()), "home/notes")
    assert (again.documents, again.replaced, again.unchanged) == (2, 2, 2)  # their paths differ
    assert last_words() == FOLDERS


def test_what_left_a_folder_before_it_moved_goes() -> None:
    for i in range(4):
        Path(f"home/notes/{i}.md").write_text(f"note {i} home")
    built("home/notes")
    os.rename("home/notes", "home/papers")
    Path("home/papers/0.md").unlink()
    os.rename("home/papers/1.md", "home/papers/one.md")
    Path("home/papers/2.md").write_text("another note")
    assert added_to("home/papers").documents == 5  # an addition deletes nothing
    assert "0.md" in last_words()
    assert synced("home/papers").deleted == 2
    kept = {
        "2.md": "note",
        "3.md": "home",
        "one.md": "home",
        "plans/a.md": "home",
        "tea.md": "home",
    }
    assert last_words() == kept
    Path("home/papers/3.md").unlink()
    assert synced("home/papers").deleted == 1


@pytest.mark.parametrize("change", [os.rename, shutil.copytree])
@pytest.mark.parametrize("spec", [".", "here", "plans"])
def test_a_folder_with_its_index_moves_as_one(
    change: Callable[[str, str], object], spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moved, restored, or copied; around its index, a folder is known by its last notes."""
    sources = str(Path("home/notes").absolute()) if spec == "here" else spec
    monkeypatch.chdir("home/notes")
    for i in range(4):
        Path(f"plans/{i}.md").write_text(f"note {i} home")
    built(sources, index=".slimdex")
    monkeypatch.chdir("../..")
    change("home/notes", "copy")
    monkeypatch.chdir("copy")
    gone = 1 if spec == "plans" else 3
    for i in range(gone):
        Path(f"plans/{i}.md").unlink()
    added = synced("plans" if spec == "plans" else ".", index=".slimdex")
    assert added.deleted == gone
    left = {"1.md", "2.md", "3.md", "a.md"} if gone == 1 else {"plans/3.md", "plans/a.md", "tea.md"}
    assert set(contents(".slimdex")) == left
    with Collection.open(".slimdex", WordEncoder()) as collection:
        assert all(Path(str(each.metadata["path"])).resolve().is_file() for each in collection)
        assert not any("home" in str(each.metadata["path"]) for each in collection)


def test_a_folder_that_is_still_there_has_not_moved() -> None:
    """Two versions of a folder with mostly the same files are two folders."""
    for i in range(8):
        Path(f"home/notes/{i}.md").write_text(f"note {i} home")
    built("home/notes")
    shutil.copytree("home/notes", "newer/notes")
    Path("newer/notes/tea.md").write_text("newer")
    Path("newer/notes/0.md").unlink()
    done = synced("newer/notes")
    assert (done.documents, done.replaced, done.deleted) == (9, 0, 0)
    assert done.notes == ["newer/notes: ids begin with notes/; shorter ones are of other files"]
    assert len(contents()) == 19


def test_single_files_with_the_same_path_are_kept_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir("home/notes")
    built("tea.md", index="../../x")
    monkeypatch.chdir("../../job/notes")
    added = added_to("tea.md", index="../../x")
    assert added.notes[0] == "tea.md: ids begin with notes/tea.md; shorter ones are of other files"
    monkeypatch.chdir("../..")
    assert last_words() == {"tea.md": "home", "notes/tea.md": "job"}
    Path("job/notes/tea.md").write_text("# tea.md\n\nat last")
    assert added_to("job/notes/tea.md").replaced == 1
    assert last_words() == {"tea.md": "home", "notes/tea.md": "last"}


def test_no_folder_replaces_documents_of_the_same_ids() -> None:
    """Another folder has the name of one in the first, or the first has a known id."""
    built("home")
    added = added_to("job/notes")
    assert (added.documents, added.replaced) == (2, 0)
    assert last_words() == {f"notes/{path}": "home" for path in ("tea.md", "plans/a.md")} | {
        f"job/notes/{path}": "job" for path in ("tea.md", "plans/a.md")
    }
    with Collection.create("y", WordEncoder()) as collection:
        collection.add([Document("tea.md", "mine"), Document("x", "other")])
    assert added_to("home/notes", index="y").replaced == 0
    assert contents("y")["tea.md"] == "mine"
    assert synced("home/notes", index="y").documents == 0


def test_a_single_file_of_a_known_folder_is_its_document() -> None:
    built("home/notes")
    Path("home/notes/plans/a.md").write_text("changed")
    assert added_to("home/notes/plans/a.md").replaced == 1
    assert last_words() == {"tea.md": "home", "plans/a.md": "changed"}


REPORTS = {
    "jan/report.csv:1": "rent paid",
    "jan/report.csv:2": "food bought",
    "feb/report.csv:1": "a car sold",
    "feb/report.csv:2": "a boat sold",
}


def test_files_of_one_name() -> None:
    first = built("jan/report.csv")
    assert first.notes[0] == "no id column; ids are jan/report.csv:1, ..."
    second = added_to("feb/report.csv")
    assert (second.documents, second.replaced) == (2, 0)
    assert contents() == REPORTS
    shutil.rmtree("x")
    added = built("jan/report.csv", "./feb//report.csv")
    assert added.notes[:2] == [
        "no id column; ids are jan/report.csv:1, ...",
        "no id column; ids are feb/report.csv:1, ...",
    ]
    assert contents() == REPORTS


@pytest.mark.slow
def test_a_grown_file_is_recognised_by_any_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built("jan/report.csv")
    Path("jan/report.csv").write_text(JAN.replace("food", "bread") + "shoes bought,9\n")
    added = added_to(str(tmp_path / "jan/report.csv"))
    assert (added.documents, added.replaced, added.unchanged) == (2, 1, 1)
    monkeypatch.chdir("jan")
    assert added_to("report.csv", index="../x").unchanged == 3
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
    added = added_to("jan/report.csv")
    assert (added.documents, added.replaced, added.unchanged) == (1, 0, 2)
    os.rename("jan", "jan2")
    os.rename("old", "jan")
    os.rename("jan2/report.csv", "report.csv")
    Path("jan/report.csv").unlink()
    os.symlink("../report.csv", "jan/report.csv")  # another place, the same documents
    Path("report.csv").write_text(JAN.replace("food", "bread"))
    added = added_to("jan/report.csv")
    assert (added.documents, added.replaced, added.unchanged) == (2, 0, 0)
    assert contents()["jan/report.csv:2"] == "food bought"
    (other,) = (id for id, text in contents().items() if text == "bread bought")
    assert other == f"{Path.cwd().name}/report.csv:2"


@pytest.mark.slow
def test_a_document_with_an_id_given_by_the_user_is_not_replaced() -> None:
    with Collection.create("x", WordEncoder()) as collection:
        collection.add([Document("jan/report.csv:2", "mine"), Document("x", "other")])
    assert added_to("jan/report.csv").replaced == 0
    assert contents()["jan/report.csv:2"] == "mine"
    assert len(contents()) == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.txt", "a.csv.gz", "corpus.jsonl"])
def test_every_kind_of_file_is_told_apart(name: str) -> None:
    for folder in ("jan", "feb"):
        text = {"csv": "text,n\nin {},1\n", "txt": "in {}\n"}
        kind = name.removesuffix(".gz").rpartition(".")[2]
        data = text.get(kind, '{{"text": "in {}"}}\n').format(folder).encode()
        data = gzip.compress(data) if name.endswith(".gz") else data
        Path(folder, name).write_bytes(data)
    specs = ["jan", "feb"] if name == "corpus.jsonl" else [f"jan/{name}", f"feb/{name}"]
    assert built(*specs).documents == 2
    assert contents() == {f"jan/{name}:1": "in jan", f"feb/{name}:1": "in feb"}


@pytest.mark.slow
def test_piped_input_never_replaces_other_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, "one\ntwo\n")
    assert built("-").notes[0] == "no id column; ids are stdin:1, ..."
    pipe(monkeypatch, "three\n")
    assert added_to("-").replaced == 0
    pipe(monkeypatch, "one\ntwo\nfour\n")  # has grown
    assert added_to("-").unchanged == 2
    pipe(monkeypatch, "three\n")
    assert added_to("-").unchanged == 1
    assert contents() == {
        "stdin:1": "one",
        "stdin:2": "two",
        "stdin:3": "four",
        "stdin~2:1": "three",
    }


@pytest.mark.slow
def test_an_interrupted_addition_keeps_its_ids() -> None:
    built("jan/report.csv")
    sources = Sources.open(["feb/report.csv"])
    encoder = failing(WordEncoder(), after=-1)
    with Collection.open("x", encoder) as collection, pytest.raises(KeyboardInterrupt):
        add(collection, sources)
    added_to("feb/report.csv")
    assert contents() == REPORTS
    assert added_to("./feb/report.csv").unchanged == 2


NESTED = {"cake.md": "plum cake", "notes/tea.md": "black tea", "notes/plans/a.md": "a plan"}


@pytest.mark.parametrize(
    "inner", ["all/notes", "all/notes/plans", "all/cake.md", "all/notes/tea.md"]
)
@pytest.mark.parametrize("add_or_sync", [added_to, synced])
def test_a_folder_around_a_known_one_has_each_file_once(
    inner: str, add_or_sync: Callable[..., AdditionReport]
) -> None:
    write_all("all", NESTED)
    built(inner)
    known = len(contents())
    added = add_or_sync("all")
    assert contents() == NESTED
    assert added.encoded == 3 - known
    os.remove("all/notes/plans/a.md")
    assert synced("all").deleted == 1
    assert contents().keys() == {"cake.md", "notes/tea.md"}


@pytest.mark.parametrize(
    "specs",
    [
        ["all/notes", "all"],
        ["all", "all/notes"],
        ["all", "all"],
        ["all/cake.md", "all/notes/plans", "all"],
    ],
)
def test_a_file_in_two_sources_of_one_command_is_read_once(specs: list[str]) -> None:
    write_all("all", NESTED)
    assert built(*specs).documents == 3
    assert contents() == NESTED
    assert synced(*specs).deleted == 0


def test_what_only_the_inner_source_reads_stays() -> None:
    write_all("all", {**NESTED, ".github/help.md": "how to help"})
    assert built("all/.github", "all").documents == 4
    assert contents() == {**NESTED, ".github/help.md": "how to help"}
    synced("all/.github", "all")
    assert ".github/help.md" in contents()
