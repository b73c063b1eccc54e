"""Links: only to files that are there, with nothing in them that a terminal could be harmed by."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from slimdex.retrieval.cli.links import file_uri, link_to
from slimdex.retrieval.documents import Hit
from slimdex.retrieval.operations.places import file_of, is_address, link_of


def hit(path: object, **more: object) -> Hit:
    return Hit("id", 0.5, "text", metadata={"path": path}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path", [None, 7, "", "gone.md", "a\x00b", "n" * 5000, "folder", "//server/share/a.md"]
)
def test_no_link_where_no_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: object
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert file_of(path) is None


def test_a_server_is_not_asked_for_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.md").touch()
    assert file_of(f"{tmp_path}/a.md") is not None
    assert file_of(f"/{tmp_path}/a.md") is None  # which Linux would find


@pytest.mark.skipif(os.name == "nt", reason="names that Windows has not")
@pytest.mark.parametrize(
    "name", ["a b;c.md", "\x1b]8;;evil\x1b\\x.md", "日本#1?.md", "100%.md", os.fsdecode(b"\xff.md")]
)
def test_any_name_is_plain_letters_in_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    uri = file_uri(Path(name))
    assert re.fullmatch(r"[!-:<-~]+", uri)
    parts = urlsplit(uri)
    assert (parts.scheme, unquote(parts.netloc)) == ("file", socket.gethostname())
    assert os.fsencode(tmp_path / name) == unquote(parts.path, errors="surrogateescape").encode(
        errors="surrogateescape"
    )
    assert not parts.query
    assert not parts.fragment


def test_a_path_upwards_is_that_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / "a.md").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")
    monkeypatch.chdir(tmp_path)
    path = Path("link/../a.md")  # beside the folder that is linked to, not beside the link
    assert path.is_file()
    assert urlsplit(file_uri(path)).path == str(tmp_path.resolve() / "real" / "a.md")


def test_no_link_without_a_terminal(tmp_path: Path) -> None:
    assert link_to(tmp_path, hit("x")).link is None


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("https://example.org/a?b=1&c#d", True),
        ("HTTP://x", True),
        ("https://x y", False),
        ("https://x\x1b\\", False),
        ("ftp://x", False),
        ("see https://x", False),
        ("https://", False),
        ("https://日本.jp", False),
    ],
)
def test_addresses(text: str, is_one: bool) -> None:
    assert is_address(text) is is_one


def test_links_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
