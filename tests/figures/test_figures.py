from __future__ import annotations

from pathlib import Path

import pytest

from .__main__ import figures_of, pages
from .links import Figure, unsupported

PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_figure_has_a_source(page: Path) -> None:
    assert unsupported(page, figures_of(page)) == []


def test_figures_without_support_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Takes 3 ms and 24 bytes, of 1,536.\n\n| a | b |\n|---|---|\n| x | -1.25 |\n")
    right = [
        Figure("Takes 3 ms", lambda: [3.4]),
        Figure("24 bytes, of 1,536", lambda: [24, 1536]),
        Figure("| x | -1.25 |", lambda: [-1.2549]),
    ]
    assert unsupported(page, right) == []
    (fault,) = unsupported(page, right[:2])
    assert fault.startswith("page.md: no source: -1.25 in ")
    for wrong, said in [
        (Figure("Takes 3 ms", lambda: [3.6]), "3 is 3.6"),
        (Figure("Takes 3 ms", lambda: [3, 4]), "1 figures and 2 values"),
        (Figure("Takes 4 ms", lambda: [4]), "not in the page"),
        (
            Figure(
                "Takes 3 ms", test="tests/figures/test_figures.py::test_every_figure_has_a_source"
            ),
            "3 is not in tests/figures",
        ),
    ]:
        assert said in unsupported(page, [*right, wrong])[0]
