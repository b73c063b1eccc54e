"""`slimdex` in a folder of its own: bare, with a tiny transformer, with word vectors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .running import PETS, Runner, write

GLOVE = "cat 1 0 0.5 0\ndog 0.9 0.2 0.4 0\nrain 0 1 0 0.1\nstocks 0 0 0.1 1\nthe 0.2 0.2 0.2 0.2\n"
NOTES = ["the cat", "rain, rain", "the stocks", "dog and cat"]


@pytest.fixture
def bare(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Runner:
    """`slimdex` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return Runner(capsys)


@pytest.fixture
def slimdex(bare: Runner, tiny_bert: Path) -> Runner:
    """`slimdex` beside pets.jsonl, with a tiny transformer."""
    write("pets.jsonl", PETS)
    bare.model = str(tiny_bert)
    return bare


@pytest.fixture(scope="module")
def first_pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first index of the pets is kept, to be copied for each other test."""
    return tmp_path_factory.mktemp("first") / "pets"


@pytest.fixture
def pets(slimdex: Runner, first_pets: Path) -> Runner:
    """`slimdex` beside an index of the pets."""
    if not first_pets.exists():
        assert slimdex("build", "pets.jsonl", "--out", "pets").code == 0
        shutil.copytree("pets", first_pets)
    else:
        shutil.copytree(first_pets, "pets")
    return slimdex


@pytest.fixture
def glove(bare: Runner, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """`slimdex` beside glove.txt and notes.jsonl."""
    monkeypatch.setenv("SLIMDEX_CACHE", str(Path("cache").absolute()))
    Path("glove.txt").write_text(GLOVE)
    write("notes.jsonl", [{"id": str(i), "text": text} for i, text in enumerate(NOTES)])
    return bare


@pytest.fixture
def notes(glove: Runner) -> Runner:
    """`slimdex` beside an index "i" of the notes."""
    assert glove("build", "notes.jsonl", "--model", "glove.txt", "--out", "i").code == 0
    return glove
