"""`slimdex` in a folder of its own: bare, with word vectors, with a tiny transformer."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from .running import PETS, Runner, write

WORDS = ["the", "cat", "dog", "rain", "a", "chased", "fell", "fog", "mat", "on", "roof", "sat"]


@pytest.fixture
def bare(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Runner:
    """`slimdex` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return Runner(capsys)


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of vectors of 32 dimensions for the words of the pets."""
    path = tmp_path_factory.mktemp("words") / "words.txt"
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 32)).round(3)
    lines = (" ".join([w, *map(str, v)]) for w, v in zip(WORDS, vectors, strict=True))
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def slimdex(bare: Runner, words: Path) -> Runner:
    """`slimdex` beside pets.jsonl, with word vectors."""
    write("pets.jsonl", PETS)
    bare.encoder = ("--model", str(words))
    return bare


@pytest.fixture
def bert(slimdex: Runner, tiny_bert: Path) -> Runner:
    """`slimdex` beside pets.jsonl, with a tiny transformer."""
    slimdex.encoder = ("--model", str(tiny_bert), "--max-length", "32")
    return slimdex


@pytest.fixture(scope="session")
def first_pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first index of the pets is kept, to be copied for each other test."""
    return tmp_path_factory.mktemp("first") / "pets"


@pytest.fixture
def pets(slimdex: Runner, first_pets: Path) -> Runner:
    """`slimdex` beside an index of the pets, by word vectors."""
    if not first_pets.exists():
        assert slimdex("build pets.jsonl --out", str(first_pets)).code == 0
    shutil.copytree(first_pets, "pets")
    return slimdex
