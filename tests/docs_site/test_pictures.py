"""The pictures of a terminal are those of slimdex as it is now; `make pictures` renews them."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path

import pytest

MADE = run_path(str(Path(__file__).parents[2] / "docs" / "site" / "pictures.py"))


def words(shown: str) -> list[str]:
    """The words without scores, whose last digit depends on the processor."""
    return re.sub(r"\d\.\d{3}", "", shown).split()


@pytest.mark.slow
def test_a_picture_shows_what_a_terminal_shows() -> None:
    shown = MADE["STYLE"].sub("", MADE["session"]())
    assert "bees.md" in shown
    for mode in MADE["MODES"]:
        picture = (MADE["PICTURES"] / f"search-{mode}.svg").read_text("utf-8")
        assert words(MADE["plain"](picture)) == words(shown), "run `make pictures`"


def test_text_is_kept_and_styled() -> None:
    picture = MADE["svg"]("\x1b[1m<a> & b\x1b[0m\n\n\x1b[36m 1\x1b[0m  c", "dark", "t")
    assert '<text x="18" y="60"><tspan class="s1">&lt;a&gt; &amp; b</tspan></text>' in picture
    assert '<text x="18" y="100"><tspan class="s36"> 1</tspan>  c</text>' in picture
    assert MADE["plain"](picture) == "<a> & b\n 1  c"
