"""`slimdex` alone: the indexes here and how fresh they are, or the first things to do."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from slimdex.command_line import PLACES

from .running import Result, Runner


@pytest.fixture
def notes(slimdex: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """`slimdex` beside a folder of two notes."""
    monkeypatch.setenv("SLIMDEX_CACHE", str(tmp_path / "cache"))
    Path("my notes").mkdir()
    Path("my notes/a.md").write_text("the cat sat")
    Path("my notes/b.md").write_text("rain fell")
    return slimdex


def pasted(slimdex: Runner, result: Result) -> list[Result]:
    """The results of the commands that a command's output ends with."""
    found = [line for line in result.out.splitlines() if line.startswith("  slimdex ")]
    assert found, result.out
    return [slimdex(*shlex.split(line)[1:]) for line in found]


def test_without_an_index_it_says_what_to_do(bare: Runner) -> None:
    code, out, err = bare("")
    assert (code, err) == (0, "")
    named = [line.split()[1] for line in out.splitlines() if line.startswith("  slimdex ")]
    assert named == ["build", "bench"]
    assert {"build", "demo", "search"} <= {*PLACES}
    example = out.partition("In Python:")[2].partition("\n\n")[0]
    compile("\n".join(line.strip() for line in example.splitlines()), "example", "exec")


@pytest.mark.parametrize("out", [(), ("--out", "it's new")])
def test_what_a_build_says_to_type_next_finds(notes: Runner, out: tuple[str, ...]) -> None:
    (searched,) = pasted(notes, notes("build", "my notes", *out))
    assert {"a.md", "b.md"} <= {*searched.out.split()}


def test_an_index_has_its_number_of_documents_and_says_if_its_sources_changed(
    notes: Runner,
) -> None:
    assert notes("build", "my notes").code == 0
    assert notes("build", "my notes", "--out", "x").code == 0
    assert notes("delete x b.md").code == 0
    os.utime("x/slimdex.manifest", (1e9, 1e9))
    shown = notes("").out.splitlines()
    assert shown[:2] == [
        ".slimdex",
        "  2 documents, changed just now; its sources have not changed since",
    ]
    assert shown[3] == "x"
    assert shown[4].startswith("  1 document, changed ")
    assert "days ago; its sources have not" in shown[4]
    Path("my notes/b.md").unlink()
    changed = notes("")
    assert changed.out.count("its sources have changed since") == 2
    assert [each.code for each in pasted(notes, changed)] == [0, 0, 0, 0]
    assert "1 document, changed just now; its sources have not" in notes("").out


@pytest.mark.skipif(os.name == "nt", reason="no names with colons")
def test_a_path_with_a_colon_is_no_package_or_query(notes: Runner) -> None:
    """As absolute paths of Windows are."""
    Path("my notes").rename("c: notes")
    assert notes("build", "c: notes").code == 0
    assert "its sources have not changed since" in notes("").out
    Path("c: notes/b.md").unlink()
    assert "its sources have changed since" in notes("").out


def test_a_damaged_index_is_named(pets: Runner) -> None:
    Path("pets/slimdex.manifest").write_bytes(b"junk")
    code, out, _ = pets("")
    assert (code, out.splitlines()[0]) == (0, "pets")
    assert "damaged" in out
