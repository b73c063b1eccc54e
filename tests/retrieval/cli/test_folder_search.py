"""`slimdex search FOLDER/`: a folder is searched without a build, as its files are now."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slimdex.retrieval import building
from slimdex.retrieval.cli import default_index

from .running import Runner

NOTES = {
    "pets/cat.md": "# The cat\n\nA kitten slept on the rug.",
    "pets/dog.md": "# The dog\n\nIt barks at the postman every morning.",
    "house/boiler.md": "# Boiler\n\nHeating fails if the pressure is below one bar.",
    "house/roof.txt": "Rain came through the tiles above the attic.",
    "code/tree.py": 'def remove_tree(path):\n    """Delete a folder."""\n',
    "money.md": "# Money\n\nShares fell sharply on Monday.",
}
QUESTIONS = ["a pet on a carpet", "no warm water", "delete a directory", "stock market crash"]


@pytest.fixture
def notes(bare: Runner) -> Runner:
    for name, text in NOTES.items():
        path = Path("notes", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return bare


def asked(folder: str) -> list[str]:
    return ["search", folder, *(word for text in QUESTIONS for word in ("--query", text)), "--json"]


def answers(result: Any) -> list[list[tuple[str, float]]]:
    queries = result["queries"]
    return [[(hit["id"], round(hit["score"], 3)) for hit in each["hits"]] for each in queries]


def found(slimdex: Runner, folder: str) -> list[list[tuple[str, float]]]:
    result = slimdex("", *asked(folder))
    assert result.code == 0, result.err
    return answers(result.json)


def built(slimdex: Runner, name: str) -> list[list[tuple[str, float]]]:
    """The answers of an index that was built of the notes as they are now."""
    assert slimdex(f"build notes --out {name}").code == 0
    return found(slimdex, name)


def test_a_folder_is_searched_without_a_build(notes: Runner) -> None:
    first = found(notes, "notes/")
    assert first == built(notes, "built.index")
    best = [hits[0][0] for hits in first]
    assert best == ["pets/cat.md", "house/boiler.md", "code/tree.py", "money.md"]
    assert sorted(each.name for each in Path("notes").iterdir() if each.is_dir()) == [
        ".slimdex",
        "code",
        "house",
        "pets",
    ]

    # Later searches see what is new, changed and gone, also from another folder.
    Path("notes/money.md").write_text("# Money\n\nA recipe for bread with rye.")
    Path("notes/pets/dog.md").unlink()
    Path("notes/new.md").write_text("Investors lost half of their shares in the crash.")
    second = found(notes, "notes")
    assert notes("sync built.index --json").json["changed"] == 1
    others = found(notes, "built.index")
    assert [dict(hits).keys() for hits in second] == [dict(hits).keys() for hits in others]
    assert second[3][0][0] == "new.md"
    assert not any(id == "pets/dog.md" for hits in second for id, _ in hits)
    os.chdir("notes/pets")
    assert [dict(hits).keys() for hits in found(notes, "..")] == [
        dict(hits).keys() for hits in second
    ]
    assert notes("info ../.slimdex --json").json["documents"] == 6


def test_words_answer_before_any_vector(notes: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = built(notes, "built.index")
    monkeypatch.setattr(building, "SECONDS_BEFORE_SEARCH", 0)
    hits = notes.found("notes/ postman barks")
    assert hits[0]["id"] == "pets/dog.md"
    assert notes("info notes/.slimdex --json").json["encoded"] == 0
    assert notes("encode notes/.slimdex --json").json["encoded"] == len(NOTES)
    assert found(notes, "notes/") == expected


def test_a_folder_that_cant_hold_an_index_has_it_in_the_cache(
    notes: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(default_index, "network_kind", lambda path: "nfs")
    first = found(notes, "notes/")
    assert not Path("notes/.slimdex").exists()
    (cached,) = (tmp_path / "cache").glob("folder-*")
    assert found(notes, "notes/") == first == found(notes, str(cached)) == built(notes, "x.index")


@pytest.mark.parametrize("move", [os.rename, shutil.copytree])
def test_a_folder_that_has_moved_is_searched_where_it_is(
    notes: Runner, move: Callable[[str, str], object]
) -> None:
    """With the index in it, and no text is encoded again."""
    first = found(notes, "notes/")
    move("notes", "moved")
    Path("moved/new.md").write_text("A parrot in its cage.")
    assert notes.found("moved/ parrot cage")[0]["id"] == "new.md"
    info = notes("info moved/.slimdex --json").json
    assert (info["documents"], info["encoded"]) == (len(NOTES) + 1, len(NOTES) + 1)
    best = [hits[0][0] for hits in found(notes, "moved/")]
    assert best == [hits[0][0] for hits in first]


def test_what_names_a_folder(notes: Runner) -> None:
    """A path; a bare word too, unless it may be a word of the question to the default index."""
    assert "no query" in notes.refuses("search notes/")
    assert not Path("notes/.slimdex").exists()
    assert notes("search notes a pet --json").json["queries"][0]["query"] == "a pet"
    assert notes("build notes/pets").code == 0
    assert notes("search notes a pet --json").json["queries"][0]["query"] == "notes a pet"
    assert notes("search ./notes a pet --json").json["queries"][0]["query"] == "a pet"
    assert {hit["id"] for hit in notes.found(". rug")} == {"cat.md", "dog.md"}


def test_folders_without_anything_to_search(notes: Runner) -> None:
    Path("empty").mkdir()
    assert "empty" in notes.refuses("search empty/ a pet")
    assert [*Path("empty").iterdir()] == []
    Path("other/.slimdex").mkdir(parents=True)
    Path("other/a.md").write_text("A note.")
    assert ".slimdex" in notes.refuses("search other/ a pet")


@pytest.mark.slow
def test_searches_at_once_and_killed_ones(notes: Runner) -> None:
    """Two of a new folder at once answer alike; of killed ones, nothing is left."""
    expected = built(notes, "built.index")

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "slimdex", *asked("notes/")]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    both = [start(), start()]
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert answers(json.loads(out)) == expected

    # Kill searches of a new folder, later and later, and search what they have left.
    subprocess.run(["rm", "-r", "notes/.slimdex"], check=True)
    for seconds in (0.6, 1.0, 1.4, 1.8, 2.2, 2.6):
        process = start()
        time.sleep(seconds)
        process.kill()
        process.communicate()
    assert found(notes, "notes/") == expected
    assert notes("verify notes/.slimdex").code == 0
