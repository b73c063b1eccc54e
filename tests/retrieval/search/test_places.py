"""Files and links of hits: only files that exist, and only plain web addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slimdex.retrieval.documents import Hit
from slimdex.retrieval.search.places import file_of, is_address, link_of


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://example.org/a?b=1&c#d", True),
        ("https://x y", False),
        ("https://x\x1b\\", False),
        ("see https://x", False),
        ("https://日本.jp", False),
    ],
)
def test_only_a_plain_web_address_is_one(text: str, expected: bool) -> None:
    assert is_address(text) is expected


def test_links_lead_to_the_address_or_the_place_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b.py").touch()
    here = (tmp_path / "a b.py").as_uri()
    cases: list[tuple[Path | None, dict[str, Any], str | None]] = [
        (Path("a b.py"), {"metadata": {"kind": "code"}, "line": 7}, f"{here}#L7"),
        (Path("a b.py"), {"line": 7}, here),
        (Path("/b.pdf"), {"page": 3}, "file:///b.pdf#page=3"),
        (Path("/b.html"), {"anchor": "tea & rum"}, "file:///b.html#tea%20%26%20rum"),
        (Path("/b.md"), {"metadata": {"url": "https://x.org/b"}}, "https://x.org/b"),
        (Path("/b.md"), {"metadata": {"url": "javascript:x()"}}, "file:///b.md"),
        (None, {}, None),
    ]
    for file, more, link in cases:
        assert link_of(Hit("id", 0.5, "", **more), file) == link
