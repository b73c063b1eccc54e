"""Ids of files: paths within a folder, which no file of another folder replaces."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from slimdex.indexes.settings import Settings
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.ingest.writer import Added
from slimdex.retrieval.operations.building import Sources, add, build
from slimdex.retrieval.syncing import sync
from tests.encoders import WordEncoder


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, words in (("home/notes", "at home"), ("job/notes", "at job")):
        for name in ("tea.md", "plans/a.md"):
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# {name}\n\n{name} {words}")


def built(*specs: str) -> Added:
    collection, added = build(Path("x"), Sources.open(specs), WordEncoder, Settings())
    collection.close()
    return added


def added_to(*specs: str) -> Added:
    with Collection.open("x", WordEncoder()) as collection:
        return add(collection, Sources.open(specs))


def texts() -> dict[str, str]:
    with Collection.open("x", WordEncoder()) as collection:
        return {document.id: document.text.split()[-1] for document in collection}


BOTH = {
    "plans/a.md": "home",
    "tea.md": "home",
    "notes/plans/a.md": "job",
    "notes/tea.md": "job",
}


@pytest.mark.slow
def test_another_folder_with_the_same_paths() -> None:
    built("home/notes")
    added = added_to("job/notes")
    assert (added.documents, added.replaced) == (2, 0)
    assert added.notes[0] == "job/notes: ids are notes/..., since others are of another folder"
    assert texts() == BOTH
    again = added_to(str(Path("job/notes").absolute()), "home/notes")
    assert (again.documents, again.replaced, again.unchanged) == (2, 2, 2)  # their paths differ
    assert texts() == BOTH


def test_two_folders_in_one_build() -> None:
    assert built("home/notes", "job/notes").documents == 4
    assert texts() == BOTH


@pytest.mark.slow
def test_three_folders_of_one_name() -> None:
    shutil.copytree("job", "more/job")
    built("home/notes", "job/notes")
    added = added_to("more/job/notes")
    assert (added.documents, added.replaced) == (2, 2)  # the same: it has moved, or is a copy
    assert "more/job/notes: taken for a folder that has moved" in added.notes
    Path("job/notes/tea.md").write_text("# tea.md\n\nat once")
    assert added_to("job/notes").notes[0].startswith("job/notes: ids are job/notes/...")
    assert texts() == {**BOTH, "job/notes/tea.md": "once", "job/notes/plans/a.md": "job"}


def test_a_folder_that_has_moved_keeps_its_ids() -> None:
    built("home/notes")
    os.rename("home/notes", "home/papers")
    added = added_to("home/papers")
    assert added.notes[0] == "home/papers: taken for a folder that has moved"
    assert set(texts()) == {"tea.md", "plans/a.md"}
    Path("home/papers/new.md").write_text("new")
    assert added_to("home/papers").documents == 1


def test_a_copy_of_a_few_files_is_another_folder() -> None:
    for i in range(4):
        Path(f"home/notes/{i}.md").write_text(f"note {i} home")
    built("home/notes")
    Path("copy/notes").mkdir(parents=True)
    shutil.copy("home/notes/0.md", "copy/notes/0.md")
    with Collection.open("x", WordEncoder()) as collection:
        done = sync(collection, Sources.open("copy/notes"))
    assert (done.documents, done.replaced, done.deleted) == (1, 0, 0)
    assert len(texts()) == 7


def test_single_files_with_the_same_path_are_kept_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir("home/notes")
    collection, _ = build(Path("../../x"), Sources.open("tea.md"), WordEncoder, Settings())
    collection.close()
    monkeypatch.chdir("../../job/notes")
    with Collection.open("../../x", WordEncoder()) as collection:
        added = add(collection, Sources.open("tea.md"))
    assert added.notes[0] == "tea.md: its id is notes/tea.md: tea.md is another file's"
    monkeypatch.chdir("../..")
    assert texts() == {"tea.md": "home", "notes/tea.md": "job"}
    Path("job/notes/tea.md").write_text("# tea.md\n\nat last")
    assert added_to("job/notes/tea.md").replaced == 1
    assert texts() == {"tea.md": "home", "notes/tea.md": "last"}


def test_a_single_file_of_a_known_folder_is_its_document() -> None:
    built("home/notes")
    Path("home/notes/plans/a.md").write_text("changed")
    assert added_to("home/notes/plans/a.md").replaced == 1
    assert texts() == {"tea.md": "home", "plans/a.md": "changed"}
