"""What the command line asks of an index, as a service in another folder is told it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.retrieval.operations.commands import AskedSources


def test_sources_are_known_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("notes.db", "a#b.txt", "v.npy"):
        (tmp_path / name).touch()
    specs = ["notes.db", "notes.db#letters", "a#b.txt", "python:json", "none.txt", "x#y", "-"]
    asked = AskedSources(specs, vectors="v.npy").from_anywhere()
    whole = [f"{tmp_path}/{name}" for name in ("notes.db", "notes.db#letters", "a#b.txt")]
    assert asked.specs == [*whole, "python:json", "none.txt", "x#y", "-"]
    assert asked.vectors == f"{tmp_path}/v.npy"
