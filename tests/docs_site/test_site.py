"""The site is built without a warning, and read in a real browser from the disk."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import click
import pytest

import slimdex
from slimdex.bench.command_line import app as bench
from slimdex.command_line import app
from tests.browsing import launched, watched
from tests.chance import CHANCE, sweep

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LARGEST = 12_000_000
"""Bytes of the site: most are the theme's and those of pictures."""
PAGES = ("reference/settings", "usage", "research/benchmarks")
SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
LOOKED_AT = CHANCE.sample([*product(SIZES, ("light", "dark"), PAGES)], 4)
"""A part has each page, and each size in each scheme."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site without a warning: of links, of anchors, of docstrings."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, str(ROOT / "docs/site/build.py"), str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, "griffe:" in done.stderr) == (0, False), done.stdout + done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from launched()


@contextmanager
def opened(browser: Browser, path: Path, **options: Any) -> Iterator[Page]:
    """A page read from the disk."""
    with watched(browser, ("file:", "data:", "blob:"), **options) as page:
        page.goto(path.as_uri())
        yield page


def check_for_all(page: Page) -> None:
    """Fail if axe-core finds a fault."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"preload": False})  # from the disk nothing can be
    assert len(found.response["passes"]) > 10
    assert not found.violations_count, found.generate_report()[:3000]


def test_no_page_loads_from_another_host(site: Path) -> None:
    loading = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)="?([^"\s>]+)""")
    pages = [*site.rglob("*.html")]
    assert len(pages) > 30
    for page in pages:
        for address in loading.findall(page.read_text()):
            assert not re.match(r"(?:https?:)?//", address), (page.name, address)


def test_every_link_leads_somewhere(site: Path) -> None:
    """Also links in HTML and to files, of which the build says nothing."""
    texts = {page: page.read_text() for page in site.rglob("*.html") if page.stem != "404"}
    anchors = {page: set(re.findall(r' id="([^"]+)"', text)) for page, text in texts.items()}
    count = 0
    for page, text in texts.items():
        for link in re.findall(r' (?:href|src)="([^"]+)"', text):
            address = urlsplit(html.unescape(link))
            if address.scheme:
                continue
            target = (page.parent / unquote(address.path)).resolve() if address.path else page
            assert target.is_file(), (page.name, link)
            assert not address.fragment or address.fragment in anchors[target], (page.name, link)
            count += 1
    assert count > 3000


def test_it_is_small(site: Path) -> None:
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < LARGEST


def test_references_name_everything(site: Path) -> None:
    """Every public name, command and route, from the code."""
    python = (site / "reference/python.html").read_text()
    settings = (site / "reference/settings.html").read_text()
    for name in slimdex.__all__:
        if name != "__version__":
            assert f'id="slimdex.{name}"' in (settings if name == "Settings" else python), name
    for name in ("search", "add", "delete", "tune", "health", "__len__"):
        assert f'id="slimdex.Collection.{name}"' in python
    commands, manual = ((site / p).read_text() for p in ("reference/command-line.md", "slimdex.1"))
    context = click.Context(app)
    for name in app.list_commands(context):
        assert f"\n## slimdex {name}\n" in commands
        command = app.get_command(context, name)
        assert command is not None
        for option in command.params:
            for word in option.opts if isinstance(option, click.Option) else ():
                assert f"`{word}" in commands, (name, word)
                assert word.replace("-", "\\-") in manual, (name, word)
    for name in bench.list_commands(context):
        assert f".SS slimdex bench {name}\n" in manual
    assert "## POST /indexes/{name}/search\n" in (site / "reference/http.md").read_text()


def test_programs_find_every_page(site: Path) -> None:
    """`llms.txt` lists the navigation, and what it lists is there, with links that lead on."""
    listed = re.findall(r"^- \[.+\]\(([\w./-]+)\): [\w`]", (site / "llms.txt").read_text(), re.M)
    # The first page is their list for people.
    assert len(listed) == len([*site.rglob("*.html")]) - 2  # and the page for what is not there
    for place in listed:
        text = (site / place).read_text()
        if place.endswith(".md"):
            for link in re.findall(r"\]\(([^)#:\s]+)[#)]", text):
                assert ((site / place).parent / unquote(link)).exists(), (place, link)
    skill = "skill/SKILL.md"
    assert (site / skill).read_text() == (ROOT / "docs" / skill).read_text()


def test_search_finds_terms_without_a_server(site: Path, browser: Browser) -> None:
    with opened(browser, site / "index.html") as page:
        page.get_by_role("button", name="Search").click()
        page.get_by_role("combobox", name="Search").press_sequentially("source code grammars")
        page.get_by_role("option").first.wait_for()
        places = page.get_by_role("option").evaluate_all("all => all.map(a => a.href)")
        assert any("/files.html" in place for place in places)
        check_for_all(page)


@sweep
@pytest.mark.parametrize(("size", "scheme", "name"), LOOKED_AT)
def test_nobody_is_left_out(
    site: Path, browser: Browser, size: str, scheme: str, name: str
) -> None:
    """axe-core finds no fault, and no page is wider than the window."""
    options: dict[str, Any] = {"viewport": SIZES[size], "color_scheme": scheme}
    with opened(browser, site / f"{name}.html", **options) as page:
        page.wait_for_timeout(300)  # until the theme's scripts have changed the page
        assert page.locator("body").get_attribute("data-md-color-scheme") == (
            "default" if scheme == "light" else "slate"
        )
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        check_for_all(page)
