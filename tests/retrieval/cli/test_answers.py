"""How answers are laid out in a pipe, where each part is a line."""

from __future__ import annotations

import pytest

from slimdex.retrieval.cli.answers import show_hits
from slimdex.retrieval.documents import Hit


def shown(capsys: pytest.CaptureFixture[str], *hits: Hit) -> list[str]:
    show_hits("tea", hits)
    return capsys.readouterr().out.splitlines()[1:]


def test_a_title_or_heading_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    place = {"start": 40, "line": 3, "headings": ("Tea", "Green")}
    named = Hit("a/notes.md", 0.5, "Boil it.", "Tea", **place)  # type: ignore[arg-type]
    assert shown(capsys, named) == [
        " 0.500  a/notes.md  Tea",
        "        Green > line 3",
        "        Boil it.",
    ]
    unnamed = Hit("a/notes.tar.md", 0.5, "Boil it.", "notes.tar", **place)  # type: ignore[arg-type]
    assert shown(capsys, unnamed)[:2] == [
        " 0.500  a/notes.tar.md",
        "        Tea > Green > line 3",
    ]
    assert shown(capsys, Hit("7", 0.5, "Boil it.", "7"))[0] == " 0.500  7"


def test_a_line_of_code_follows_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"path": "/x/a/b.py", "kind": "code"}
    code = Hit("a/b.py", 0.5, "x", metadata=columns, start=9, line=1234, headings=("f",))
    assert shown(capsys, code)[:2] == [" 0.500  a/b.py:1234", "        f"]
    renamed = Hit("other", 0.5, "x", metadata=columns, start=9, line=7, headings=("f",))
    assert shown(capsys, renamed)[:2] == [" 0.500  other:7", "        /x/a/b.py > f"]
    text = Hit("a/b.py", 0.5, "x", metadata=columns | {"kind": "text"}, start=9, line=7)
    assert shown(capsys, text)[:2] == [" 0.500  a/b.py", "        line 7"]


def test_a_very_long_id_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    (first, *_) = shown(capsys, Hit("x" * 1_000_000, 0.5, "Boil it."))
    assert len(first) < 1100
