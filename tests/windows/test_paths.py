"""Paths of Windows, as pathlib has them on any system: drives, backslashes and shares."""

from __future__ import annotations

from pathlib import Path, PureWindowsPath

import pytest

from slimdex.errors import InputError
from slimdex.retrieval.cli import search
from slimdex.retrieval.cli.search import Queries
from slimdex.retrieval.encoders import models
from slimdex.retrieval.search.options import SearchOptions
from slimdex.retrieval.search.places import file_of
from slimdex.retrieval.server import service


class WindowsPath(PureWindowsPath):
    """A path that exists nowhere."""

    def exists(self) -> bool:
        return False

    def resolve(self) -> WindowsPath:
        return self

    absolute = resolve


def test_an_index_has_the_name_of_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "Path", WindowsPath)
    words = [r"C:\srv\notes.index", "D:/news.index", r"old=C:\srv\2019", r"\\nas\x\far.index"]
    assert {name: place.as_posix() for name, place in service.parse_places(words).items()} == {
        "notes": "C:/srv/notes.index",
        "news": "D:/news.index",
        "old": "C:/srv/2019",
        "far": "//nas/x/far.index",
    }


@pytest.mark.parametrize("model", [r"C:\models\e5", "C:/e5", r"models\e5", r"\\nas\x\e5"])
def test_the_hub_is_not_asked_for_a_path(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "hub_reachable", None)  # calling it would fail
    with pytest.raises(InputError, match="no such folder"):
        models.find_model(model)


def test_patterns_of_paths_have_either_separator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "sep", "\\")

    def where(*globs: str) -> str | None:
        options = SearchOptions(glob=[*globs])
        return search.request_for(Queries(["a"]), options, trust_remote_code=False).condition

    assert where(r"code\*.py") == where("code/*.py") != where("*.py")


@pytest.mark.parametrize("path", [r"\\evil\share\a.md", r"\??\UNC\evil\share\a.md"])
def test_a_hit_has_no_file_on_another_computer(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    assert file_of("a.md") == Path("a.md")
    assert file_of(path) is None
