"""Files of hits: only files that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from slimdex.retrieval.search.places import file_of


@pytest.mark.parametrize(
    "path", [None, 7, "", "gone.md", "a\x00b", "n" * 5000, "folder", "//server/share/a.md"]
)
def test_a_path_without_a_file_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: object
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert file_of(path) is None


def test_a_path_on_another_computer_is_not_looked_up(tmp_path: Path) -> None:
    (tmp_path / "a.md").touch()
    assert file_of(f"{tmp_path}/a.md") is not None
    assert file_of(f"/{tmp_path}/a.md") is None  # which Linux would find


def test_a_relative_path_is_looked_up_beside_the_index_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    (tmp_path / "here" / "a.md").touch()
    monkeypatch.chdir(tmp_path / "here")
    assert file_of("a.md") == Path("a.md")
    assert file_of("a.md", tmp_path / "there") is None
    assert file_of("a.md", tmp_path / "here") == tmp_path / "here" / "a.md"
