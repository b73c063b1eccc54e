"""Commands without an index's folder: the nearest `.slimdex`, or `SLIMDEX_INDEX`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from slimdex.command_line import app

from .running import Runner, write


@pytest.fixture
def here(pets: Runner, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """`slimdex` in a folder `sub/sub` below `.slimdex`, with the pets in it and beside it."""
    shutil.copytree("pets", ".slimdex")
    Path("sub/sub").mkdir(parents=True)
    shutil.move("pets", "sub/sub/pets")
    monkeypatch.chdir("sub/sub")
    return pets


def ids(slimdex: Runner, *words: str) -> list[str]:
    return [hit["id"] for hit in slimdex.found(*words)]


def test_a_build_and_all_that_follow_need_no_folder(
    slimdex: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert slimdex("build pets.jsonl").code == 0
    assert Path(".slimdex/slimdex.manifest").exists()
    write("more.jsonl", [{"id": "fog", "text": "fog came on cat feet"}])
    assert slimdex("add more.jsonl --json").json["documents"] == 4
    Path("below").mkdir()
    monkeypatch.chdir("below")
    assert set(ids(slimdex, "the", "cat", "-n", "9")) == {"cat", "dog", "rain", "fog"}
    assert slimdex("open fog --json").json["text"] == "fog came on cat feet"
    assert slimdex("delete fog rain --json").json["documents"] == 2
    assert slimdex("compact --json").json["freed"] == 2
    assert slimdex("sync ../more.jsonl --json").json["documents"] == 3
    for command in ("info", "verify", "repair"):
        assert slimdex(command).code == 0
    assert slimdex("reduce --gamma 0 --json").json["settings"]["gamma"] == 0


def test_a_word_is_the_index_only_if_it_is_one(here: Runner) -> None:
    Path("cat").mkdir()
    assert here("delete rain").code == 0  # of ../../.slimdex
    assert here("info --json").json["documents"] == 2
    assert "rain" in ids(here, "pets", "cat")
    assert "rain" not in ids(here, "cat", "pets")
    assert ids(here, "", "cat " * 300)  # longer than a file's name may be
    assert len(ids(here, "--query", "pets")) == 2
    assert len(ids(here, "pets", "--query", "pets")) == 3
    assert here("open pets rain").code == 0
    assert "unknown id 'nosuch'" in here.refuses("open nosuch")
    assert "Missing argument 'ID'" in here.refuses("open pets")


def test_the_variable_comes_before_the_folder(
    here: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert here("delete rain").code == 0
    monkeypatch.setenv("SLIMDEX_INDEX", "pets")
    assert here("info --json").json["documents"] == 3
    monkeypatch.setenv("SLIMDEX_INDEX", "nosuch")
    assert "SLIMDEX_INDEX=nosuch: no slimdex index there" in here.refuses("info")
    write("one.jsonl", [{"id": "1", "text": "the cat"}])
    assert here("build one.jsonl").code == 0
    assert here("info --json").json["documents"] == 1


def test_a_second_build_names_the_command_that_updates(slimdex: Runner) -> None:
    assert slimdex("build pets.jsonl").code == 0
    write("pets.jsonl", [{"id": "fog", "text": "fog on the roof"}])
    said = re.search(r"`slimdex (sync .+?)`", slimdex.refuses("build pets.jsonl"))
    assert said is not None
    assert slimdex(said[1]).code == 0
    assert ids(slimdex, "roof", "-n", "9") == ["fog"]


@pytest.mark.parametrize("command", ["", *app.import_paths])
def test_h_is_help(bare: Runner, command: str) -> None:
    shown = bare(command, "-h")
    assert shown.code == 0
    assert shown.out == bare(command, "--help").out


def test_nothing_is_guessed_without_any(slimdex: Runner) -> None:
    for words in (("info",), ("serve",)):
        assert "no index given" in slimdex.refuses(*words)
    for command in ("search", "open", "add", "sync"):
        assert "boiler: no slimdex index there" in slimdex.refuses(command, "boiler")
    assert not Path(".slimdex").exists()
    assert "Usage" in slimdex("search boiler --help").out


def test_a_build_remembers_its_sources_for_sync(
    slimdex: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    Path("notes").mkdir()
    Path("notes/a.md").write_text("a cat sat")
    monkeypatch.chdir("notes")
    assert slimdex("build .").code == 0
    Path("b.md").write_text("a dog ran")
    synced = slimdex("sync --json")
    assert (synced.json["added"], synced.json["unchanged"], synced.err) == (1, 1, "")
    monkeypatch.chdir("..")
    Path("notes/a.md").unlink()
    assert slimdex("sync notes/.slimdex --json").json["deleted"] == 1


def test_a_sync_sees_all_that_was_added(
    slimdex: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))

    def texts(**texts: str) -> None:
        for name, text in texts.items():
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text(text)

    def synced(*words: str) -> list[int]:
        report = slimdex("sync", *words, "--json").json
        return [report[name] for name in ("added", "changed", "deleted", "documents")]

    texts(**{"a/cake.md": "the cat", "a/bread.md": "a dog", "b/x.md": "fog", "t.csv": "w\nrain\n"})
    assert slimdex("build", "a", "--out", "i").code == 0
    assert slimdex("add", "i", "t.csv", "--text", "w").code == 0
    assert synced("i", "b", "--exclude", "y.md") == [1, 0, 0, 4]
    Path("a/bread.md").unlink()
    texts(**{"a/cake.md": "the dog", "b/y.md": "a mat", "b/z.md": "rain", "t.csv": "w\nfog\n"})
    assert synced("i") == [1, 2, 1, 4]

    # A renamed index knows its sources; a copy of it, or one whose cache was emptied, says so.
    Path("i").rename("j")
    shutil.copytree("j", "k")
    texts(**{"a/new.md": "a roof"})
    assert synced("j") == [1, 0, 0, 5]
    assert "k: its sources are not known here" in slimdex.refuses("sync", "k")
    shutil.rmtree("cache")
    assert "j: its sources are not known here" in slimdex.refuses("sync", "j")

    # One that is gone is an error until the sources are named again.
    assert synced("j", "a", "b") == [1, 0, 0, 6]
    shutil.rmtree("b")
    assert "b: no such file or folder" in slimdex.refuses("sync", "j")
    assert synced("j", "a") == [0, 0, 0, 6]
    assert synced("j") == [0, 0, 0, 6]


def test_standard_input_is_no_source_to_sync_with(
    slimdex: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    with Path("pets.jsonl").open() as documents:
        monkeypatch.setattr("sys.stdin", documents)
        assert slimdex("build -").code == 0
    assert "expected files or folders" in slimdex.refuses("sync")
